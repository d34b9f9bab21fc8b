"""Water tanks of the greenhouse: filling, draining and the alarms that go with them."""

import math
import time


class TankError(Exception):
    """Raised when a tank would overflow or run dry."""


class Tank:
    """A cylindrical tank. Volumes are in litres, lengths in metres."""

    def __init__(self, radius, height, reserve=20.0):
        self.radius = radius
        self.height = height
        self.reserve = reserve
        self.volume = 0.0
        self.log = []

    @property
    def capacity(self):
        """Litres the tank holds when it is full."""
        return math.pi * self.radius**2 * self.height * 1000

    def level(self):
        """Height of the water as a share of the tank's height."""
        return self.volume / self.capacity

    def fill(self, litres):
        """Add water; an overflow is refused before a drop is added."""
        if self.volume + litres > self.capacity:
            raise TankError(f"{litres} litres would overflow the tank")
        self.volume += litres
        self.log.append((time.time(), "fill", litres))

    def drain(self, litres):
        """Take water out, but never below the reserve that keeps the pump wet."""
        if self.volume - litres < self.reserve:
            raise TankError("the pump would run dry")
        self.volume -= litres
        self.log.append((time.time(), "drain", litres))


def schedule_irrigation(tanks, demand, hours=6):
    """Share the demand among tanks in proportion to what they hold above their reserve.

    Returns litres per hour for each tank; the night run lasts six hours by default.
    """
    available = [max(tank.volume - tank.reserve, 0.0) for tank in tanks]
    total = sum(available)
    if total < demand:
        raise TankError(f"{demand} litres are needed and {total:.0f} are there")
    return [demand * share / total / hours for share in available]


def detect_leak(readings, window=12, threshold=0.5):
    """True if the level fell by more than the threshold in each of the last readings, with nobody drawing water."""
    recent = readings[-window:]
    drops = [before - after for before, after in zip(recent, recent[1:])]
    return len(recent) == window and all(drop > threshold for drop in drops)


def nitrate_dose(volume, measured_ppm, target_ppm=150):
    """Grams of calcium nitrate to bring a volume to the target; 1 ppm is 1 mg per litre, the salt is 62 % nitrate."""
    missing = max(target_ppm - measured_ppm, 0)
    return volume * missing / 1000 / 0.62
