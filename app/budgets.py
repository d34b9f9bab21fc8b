"""How much memory each tier of the KV cache may take: what the settings say, or what is sensible here and now.

On CUDA `vram` covers weights, workspace and KV pool. On a CPU the pool is RAM with the same logic; the weights are a
mapped file, which the system reads and drops as it likes, and count apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from octavo.app.errors import SettingsError
from octavo.app.models.text import human_size
from octavo.app.units import format_size

if TYPE_CHECKING:
    from octavo.app.settings import Settings
    from octavo.engine.workspace import ModelSizes, RunSizes
    from octavo.storage.paths import Paths

MARGIN_BYTES = 512 << 20
MARGIN_SHARE = 0.08
"""What `auto` leaves free on a GPU, whichever is more: its driver, other programs and the screen grow, too."""

RAM_SHARE = 0.8
"""Of what is left beside weights and workspace, the most that an automatic pool takes of a CPU's RAM."""

HOST_SHARE = 0.5
DISK_SHARE = 0.25
MOST_DISK = 64 << 30
LEAST_DISK = 2 << 30

# Prefill multiplies in bfloat16 unless the settings say float32.
_COMPUTE_BYTES = {"auto": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class Machine:
    """Bytes free here: on the GPU with the most of them (None without one), in RAM, and on the page store's disk.

    `disk_held` is what the page store takes already.
    """

    gpu_free: int | None
    gpu_name: str
    ram_available: int
    disk_free: int
    disk_held: int


@dataclass(frozen=True)
class Budgets:
    """Bytes of each tier, and one sentence each that says how it came about.

    `vram` is all that may be taken on the device; of it `kv_bytes` is the pool (slots of complete pages, and the
    unfinished ones) and `workspace` what computing takes. `host_bytes` and `disk_bytes` are 0 where a tier is off.
    """

    device: str
    vram: int
    kv_bytes: int
    workspace: int
    host_bytes: int
    disk_bytes: int
    kv_tokens: int
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "vram": self.vram,
            "ram": self.host_bytes,
            "disk": self.disk_bytes,
            "kv_pool": self.kv_bytes,
            "workspace": self.workspace,
            "kv_tokens": self.kv_tokens,
            "notes": list(self.notes),
        }


def measure_machine(paths: Paths) -> Machine:
    """What is free now."""
    from octavo.engine.hardware import disk_free, measure_gpus, measure_ram

    best = max(measure_gpus(), key=lambda gpu: gpu.free, default=None)
    folder = paths.pages_dir
    held = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else 0
    return Machine(
        gpu_free=best.free if best else None,
        gpu_name=best.name if best else "",
        ram_available=measure_ram().available,
        disk_free=disk_free(folder),
        disk_held=held,
    )


def choose_device(settings: Settings) -> Literal["cpu", "cuda"]:
    """The device to run on; a GPU that may not be used is none. Imports torch unless the settings say CPU.

    Raises EngineError where CUDA is wanted and not there, SettingsError where it is wanted and `vram` is off.
    """
    from octavo.engine import hardware

    if settings.vram == "off":
        if settings.device == "cuda":
            raise SettingsError(
                f"{_place(settings, 'device')} is cuda and {_place(settings, 'vram')} is off, which means to run on "
                "the CPU; change one of them."
            )
        return "cpu"
    return "cuda" if hardware.choose_device(settings.device) == "cuda" else "cpu"


def run_sizes(settings: Settings, device: str) -> RunSizes:
    """What of the settings memory depends on."""
    from octavo.engine.workspace import RunSizes

    return RunSizes(
        page_size=settings.page_size,
        prefill_chunk=settings.prefill_chunk,
        compute_bytes=_COMPUTE_BYTES[settings.compute_dtype],
        on_cuda=device.startswith("cuda"),
        is_native=find_spec("octavo.engine.kernels._native") is not None,
    )


def resolve_budgets(
    settings: Settings,
    sizes: ModelSizes,
    weight_bytes: int,
    context: int,
    device: str,
    machine: Machine,
    *,
    trained: int | None = None,
) -> Budgets:
    """The budgets for a model of these sizes and a context, before anything of it is loaded.

    trained: the tokens that the model was trained on, where the context may be longer.

    Raises SettingsError, with the numbers, where `vram` cannot hold the smallest engine that runs.
    """
    disk, disk_note = _disk(settings, machine)
    need = _Need(settings, sizes, weight_bytes, context, device, trained=trained, writes=disk > 0)
    pool, note = _pool_on_cuda(need, machine) if need.run.on_cuda else _pool_on_cpu(need, machine)
    host, host_note = _host(need, pool, machine)
    return Budgets(
        device=device,
        vram=settings.vram if isinstance(settings.vram, int) else need.fixed + pool,
        kv_bytes=pool,
        workspace=need.workspace,
        host_bytes=host,
        disk_bytes=disk,
        kv_tokens=need.tokens_of(pool),
        notes=(note, host_note, disk_note),
    )


class _Need:
    """What a model takes on its device: `fixed` before there is a pool, and the pools that are worth having."""

    def __init__(
        self,
        settings: Settings,
        sizes: ModelSizes,
        weight_bytes: int,
        context: int,
        device: str,
        *,
        trained: int | None,
        writes: bool,
    ) -> None:
        from octavo.engine import planner
        from octavo.engine.workspace import workspace_bytes

        run, codec = run_sizes(settings, device), settings.kv_codec
        self.settings = settings
        self.run = run
        self.context = context
        self.weight_bytes = weight_bytes
        trained = min(context, trained or context)
        self.workspace = workspace_bytes(sizes, trained, codec, run)
        if context > min(settings.dense_limit or trained, trained):
            self.workspace += planner.bounds_bytes(sizes, context, run.page_size)
        self.fixed = self.workspace + (weight_bytes if run.on_cuda else 0)
        self.page_bytes = planner.kv_bytes(sizes, run.page_size, codec, run.page_size)
        self.tails = planner.tail_bytes(sizes, codec, run)
        self.whole = self.tails + planner.kv_bytes(sizes, context, codec, run.page_size)
        self.smallest = planner.smallest_pool_bytes(sizes, codec, run)
        self.buffer = planner.write_buffer_bytes(sizes, codec, run) if writes else 0

    def tokens_of(self, pool: int) -> int:
        """Tokens whose complete pages a pool holds."""
        return (pool - self.tails) // self.page_bytes * self.run.page_size

    def pool_within(self, room: int) -> int:
        """The automatic pool: the whole context, or as many whole pages as `room` bytes hold."""
        pages = max((room - self.tails) // self.page_bytes, 1)
        return min(self.whole, self.tails + pages * self.page_bytes)

    def pool_of(self, vram: int) -> int:
        """The pool that an explicit budget leaves. Raises SettingsError where it cannot run."""
        if vram < self.fixed + self.smallest:
            weights = f"{human_size(self.weight_bytes)} of weights, " if self.run.on_cuda else ""
            raise SettingsError(
                f"{_place(self.settings, 'vram')} is {format_size(vram)}, and this model needs at least "
                f"{human_size(self.fixed + self.smallest)}: {weights}{human_size(self.workspace)} to compute in and "
                f"{human_size(self.smallest)} for the smallest KV pool; raise it, lower prefill_chunk "
                f"({self.run.prefill_chunk}), or choose a smaller model."
            )
        return vram - self.fixed

    def held(self, pool: int) -> str:
        """What a pool holds, in words."""
        tokens = self.tokens_of(pool)
        return (
            f"the whole context of {self.context:,} tokens"
            if tokens >= self.context
            else f"{tokens:,} of the {self.context:,} tokens of its context"
        )


def _pool_on_cpu(need: _Need, machine: Machine) -> tuple[int, str]:
    vram, counted = need.settings.vram, f"the weights ({human_size(need.weight_bytes)}) count apart"
    if isinstance(vram, int):
        pool = need.pool_of(vram)
        return pool, _explicit(need, vram, pool, f"; {counted}")
    left = machine.ram_available - need.weight_bytes - need.workspace - need.buffer
    pool = need.pool_within(int(left * RAM_SHARE))
    why = counted
    if pool < need.whole:
        why = f"four fifths of the {human_size(max(left, 0))} that are left beside the weights and the workspace"
    start = "vram auto" if vram == "auto" else "vram off: on the CPU"
    return pool, (
        f"{start}: {human_size(need.fixed + pool)} of RAM, {human_size(need.workspace)} of it to compute in, hold "
        f"{need.held(pool)}; {why}."
    )


def _pool_on_cuda(need: _Need, machine: Machine) -> tuple[int, str]:
    vram, free = need.settings.vram, machine.gpu_free or 0
    if isinstance(vram, int):
        pool = need.pool_of(vram)
        short = f"; only {human_size(free)} are free on {machine.gpu_name} now" if vram > free else ""
        return pool, _explicit(need, vram, pool, short)
    margin = max(MARGIN_BYTES, int(free * MARGIN_SHARE))
    room = free - margin - need.fixed
    if room < need.smallest:
        raise SettingsError(
            f"{human_size(free)} are free on {machine.gpu_name or 'the GPU'}, of which {human_size(margin)} stay free, "
            f"and this model needs at least {human_size(need.fixed + need.smallest)} there, "
            f"{human_size(need.weight_bytes)} of it for its weights; close other programs, choose a smaller model, or "
            "run on the CPU with vram off."
        )
    pool = need.pool_within(room)
    return pool, (
        f"vram auto: {human_size(need.fixed + pool)} of the {human_size(free)} free on {machine.gpu_name}, "
        f"{human_size(need.weight_bytes)} of it weights, {human_size(need.workspace)} to compute in, hold "
        f"{need.held(pool)}; at least {human_size(margin)} stay free."
    )


def _explicit(need: _Need, vram: int, pool: int, more: str) -> str:
    return (
        f"vram {format_size(vram)}: after {human_size(need.fixed)} for "
        f"{'weights and workspace' if need.run.on_cuda else 'the workspace'} it holds {need.held(pool)}{more}."
    )


def _host(need: _Need, pool: int, machine: Machine) -> tuple[int, str]:
    ram = need.settings.ram
    buffer = f"; {human_size(need.buffer)} buffer what is on its way to disk" if need.buffer else ""
    if ram == "off":
        return 0, f"ram off: pages that leave the device are on disk or lost{buffer}."
    if ram == "auto" and not need.run.on_cuda:
        return 0, f"ram auto: off, because without a GPU the pool is in RAM already{buffer}."
    if isinstance(ram, int):
        size, start, why = ram, f"ram {format_size(ram)}", "for pages that leave the device"
        if ram > machine.ram_available:
            why += f"; only {human_size(machine.ram_available)} are available now"
    else:
        size, start = int(machine.ram_available * HOST_SHARE), "ram auto"
        why = f"half of the {human_size(machine.ram_available)} available"
        most = need.run.max_sequences * (need.whole - need.tails)
        if most < size:
            size, why = most, f"as much as {need.run.max_sequences} conversations of the whole context take"
    if size <= pool:
        size_words, pool_words = human_size(size), human_size(pool)
        return 0, f"{start}: off, because {size_words} are not more than the pool of {pool_words} above it{buffer}."
    return size, f"{start}: {human_size(size)}, {why}."


def _disk(settings: Settings, machine: Machine) -> tuple[int, str]:
    disk = settings.disk
    if disk == "off":
        return 0, "disk off: nothing is kept for the next start."
    whole = machine.disk_free + machine.disk_held
    if isinstance(disk, int):
        short = f"; only {human_size(whole)} are there for it now" if disk > whole else ""
        return disk, f"disk {format_size(disk)}: the most that pages take on disk{short}."
    size = min(int(whole * DISK_SHARE), MOST_DISK)
    if size < LEAST_DISK:
        return 0, (
            f"disk auto: off, because a quarter of the {human_size(whole)} there is for it is less than "
            f"{format_size(LEAST_DISK)}."
        )
    why = f"a quarter of the {human_size(whole)} that are free or hold pages"
    return size, f"disk auto: up to {human_size(size)}, {why if size < MOST_DISK else 'which is its limit'}."


def _place(settings: Settings, key: str) -> str:
    """A setting, and where its value stands."""
    place = settings.sources.get(key)
    return f"{key} in {place}" if place else key
