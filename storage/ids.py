"""Identifiers that sort by the time they were made: 48 bits of milliseconds, 80 random bits, in base 32."""

from __future__ import annotations

import secrets
import threading
import time

# Crockford's alphabet: no i, l, o, u, so that an identifier can be read aloud and typed.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 26
_RANDOM_BITS = 80

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A fresh identifier of 26 characters, greater than every one this process made before (also if the clock is set
    back). The layout is that of a ULID, https://github.com/ulid/spec, in lower case."""
    global _last
    with _lock:
        drawn = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        _last = value = max(drawn, _last + 1)
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))
