"""The context is legal, yet memory runs out: what to look at, in order, with this machine's figures.

Each step says what was found by arithmetic, what was measured where a model runs, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from octavo.app.models.text import human_size
from octavo.app.tui.text import count, one_line

if TYPE_CHECKING:
    from octavo.app.assistant.snapshot import Snapshot
    from octavo.app.models.planned import PlannedModel
    from octavo.app.settings import Settings
    from octavo.storage.records import StoredMessage

_LONGEST = 5
_TITLE, _SHORT_ID = 40, 12
_BEYOND = ", more than this context: its oldest turns are left out of prompts"
_SHORTER = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to look at: sentences with figures, and what helps if this is it."""

    title: str
    findings: tuple[str, ...]
    remedy: str


@dataclass(frozen=True, slots=True)
class Case:
    """What is examined. `answers` are the newest ones stored, of conversations with these `titles` by id; `snapshot` is
    None where no model runs here.
    """

    settings: Settings
    model: PlannedModel
    device: str
    answers: Sequence[StoredMessage]
    snapshot: Snapshot | None = None
    titles: Mapping[str, str] = field(default_factory=dict)


def examine_memory(case: Case) -> list[Step]:
    """The steps in the order in which the reason is usually found. Raises ModelFileError for a broken model."""
    looks: tuple[Callable[[Case], Step], ...] = (
        _tokens, _kv, _weights, _queue, _reserved, _phases, _lower_first,
    )  # fmt: skip
    return [look(case) for look in looks]


def as_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [asdict(step) for step in steps]


def as_text(steps: Sequence[Step]) -> str:
    """Numbered, with the remedy last."""
    lines = []
    for number, step in enumerate(steps, start=1):
        lines += [f"{number}. {step.title}", *(f"   {finding}" for finding in step.findings), f"   → {step.remedy}", ""]
    return "\n".join(lines).rstrip()


def _context(case: Case) -> int:
    return case.settings.context or case.model.context


def _per_token(case: Case) -> float:
    """Bytes of KV for one token, over all layers, as the codec stores it."""
    from octavo.engine.planner import kv_bytes

    size = case.settings.page_size
    return kv_bytes(case.model.sizes, size, case.settings.kv_codec, size) / size


def _lengths(case: Case) -> dict[str, int]:
    """Tokens of prompt and answer together, of each conversation's newest answer; conversation id -> tokens."""
    lengths: dict[str, int] = {}
    for message in case.answers:
        usage = message.record.get("usage") or {}
        if usage and message.conversation_id not in lengths:
            lengths[message.conversation_id] = usage.get("prompt_tokens", 0) + usage.get("generated_tokens", 0)
    return lengths


def _tokens(case: Case) -> Step:
    longest = sorted(_lengths(case).items(), key=lambda item: -item[1])[:_LONGEST]
    context = _context(case)
    findings = [f"The context is {context:,} tokens, prompt and answer together."]
    for key, tokens in longest:
        title = one_line(case.titles.get(key, ""), _TITLE)
        name = f"“{title}” ({key[:_SHORT_ID]})" if title else f"Conversation {key[:_SHORT_ID]}"
        figures = f"{tokens:,} tokens ({100 * tokens / context:.0f}%), {_kv_text(case, tokens)} of KV"
        findings.append(f"{name} has {figures}{_BEYOND if tokens > context else ''}.")
    if not longest:
        findings.append("No answer has been recorded yet.")
    return Step("Tokens of each conversation", tuple(findings), "Close long conversations, or begin new ones (/new).")


def _kv_text(case: Case, tokens: int) -> str:
    return human_size(int(tokens * _per_token(case)))


def _kv(case: Case) -> Step:
    sizes, settings = case.model.sizes, case.settings
    plain = 2 * sizes.num_layers * sizes.num_kv_heads * sizes.head_dim * 2
    findings = [
        f"By formula: 2 (K and V) x {sizes.num_layers} layers x {sizes.num_kv_heads} KV heads x {sizes.head_dim} x "
        f"2 bytes = {plain:,} bytes a token in bf16; {settings.kv_codec} stores {_per_token(case):,.0f}.",
        f"The whole context is {_kv_text(case, _context(case))} of it.",
    ]
    if case.snapshot is not None:
        engine = case.snapshot.engine
        findings.append(
            f"Measured: {human_size(engine.slots.in_use)} in use and {human_size(engine.slots.cached)} cached of "
            f"{human_size(engine.slots.total)} of slots ({engine.page_bytes // engine.page_size:,} bytes a token), at "
            f"most {human_size(engine.most_occupied)} so far; {human_size(engine.tails.total)} for unfinished pages."
        )
        if engine.rows.total:
            findings.append(f"In RAM below it: {human_size(engine.rows.occupied)} of {human_size(engine.rows.total)}.")
    first = "Lower context." if settings.kv_codec in ("k8v4", "k4v4") else "Lower kv_codec (k8v4), or context."
    return Step("The KV cache, by formula and measured", tuple(findings), first)


def _weights(case: Case) -> Step:
    model = case.model
    findings = [f"{model.name}: {human_size(model.weight_bytes)}, scales and unquantized layers included."]
    if model.path is not None:
        from octavo.engine.weight_sizes import weights_by_format

        found = weights_by_format(model.path)
        total = sum(count for _, count, _ in found)
        findings += [
            f"{name}: {human_size(size)} for {count / 1e6:,.1f} M weights, {8 * size / count:.2f} bits each"
            f"{' (not quantized)' if name in ('F32', 'F16', 'BF16') else ''}."
            for name, count, size in found
        ]
        if total:
            findings.append(f"{8 * model.weight_bytes / total:.2f} bits a weight in all.")
    if case.snapshot is not None:
        findings.append(f"Measured: {human_size(case.snapshot.engine.weights)}.")
    return Step("Weights", tuple(findings), "Take a smaller model or fewer bits: octavo models recommend.")


def _queue(case: Case) -> Step:
    if case.snapshot is None:
        return Step(
            "Queue and evictions",
            ("No model runs in this process; in the screen F2, Triage, shows them.",),
            "Raise vram or ram where pages are evicted while answers wait.",
        )
    engine, counters = case.snapshot.engine, case.snapshot.engine.counters
    findings = [
        f"{count(engine.num_running, 'request')} being answered, {engine.num_waiting:,} waiting.",
        f"{counters.evicted_from_device // engine.num_layers:,} pages left the device so far, "
        f"{counters.evicted_from_host:,} left RAM; "
        f"{counters.streamed_layers // engine.num_layers:,} were read past it.",
        f"{counters.written:,} pages were written down, {counters.not_written:,} refused, {counters.lost:,} lost; "
        f"{counters.stalls:,} waits for the disk.",
    ]
    is_short = engine.num_waiting or counters.evicted_from_device or counters.streamed_layers or counters.stalls
    remedy = "Raise vram, or ram; fewer conversations at once." if is_short else "Nothing: no page had to leave."
    return Step("Queue and evictions", tuple(findings), remedy)


def _reserved(case: Case) -> Step:
    from octavo.app.assistant.budget import Budget

    settings, context = case.settings, _context(case)
    budget = Budget.of(context, settings.generation.max_tokens)
    finding = (
        f"{budget.reserve:,} of {context:,} tokens are kept for the answer "
        f"(max_tokens {settings.generation.max_tokens:,}), {_kv_text(case, budget.reserve)} of KV, and {budget.margin} "
        f"are left free; a prompt may have the other {budget.available:,}."
    )
    return Step("Reserved output", (finding,), "Lower generation.max_tokens.")


def _phases(case: Case) -> Step:
    from octavo.app.budgets import run_sizes
    from octavo.engine.workspace import workspace_bytes

    run, context = run_sizes(case.settings, case.device), _context(case)
    whole = workspace_bytes(case.model.sizes, context, case.settings.kv_codec, run)
    findings = [
        f"Workspace: {human_size(whole)} with chunks of {run.prefill_chunk} tokens; prefill needs the most of it."
    ]
    timed = [m.record["timings"] for m in case.answers if m.record.get("timings")][:20]
    if timed:
        prefill = sum(item.get("prefill_s", 0.0) for item in timed)
        total = sum(item.get("e2e_s", 0.0) for item in timed)
        share = f"{100 * prefill / max(total, 1e-9):.0f}% was prefill"
        findings.append(f"Of the time that the last {count(len(timed), 'answer')} took {share}.")
    if case.snapshot is not None and case.snapshot.engine.cuda is not None:
        cuda = case.snapshot.engine.cuda
        findings.append(
            f"Measured: the most that was allocated is {human_size(cuda.peak)}, now {human_size(cuda.allocated)}."
        )
    return Step("Prefill or decode", tuple(findings), "If it runs out while reading a prompt, lower prefill_chunk.")


def _lower_first(case: Case) -> Step:
    """What each change would bring, the one that costs the least first."""
    from dataclasses import replace

    from octavo.app.budgets import run_sizes
    from octavo.engine.planner import kv_bytes
    from octavo.engine.workspace import workspace_bytes

    sizes, settings, context = case.model.sizes, case.settings, _context(case)
    run = run_sizes(settings, case.device)
    now = kv_bytes(sizes, context, settings.kv_codec, run.page_size)
    workspace = workspace_bytes(sizes, context, settings.kv_codec, run)
    findings = []
    for codec in ("k8v8", "k8v4"):
        saved = now - kv_bytes(sizes, context, codec, run.page_size)
        if saved > 0:
            findings.append(f'kv_codec = "{codec}" saves {human_size(saved)} of the KV of a whole context.')
    half = replace(run, prefill_chunk=max(run.prefill_chunk // 2, run.page_size))
    saved = workspace - workspace_bytes(sizes, context, settings.kv_codec, half)
    if saved > 0:
        findings.append(
            f"prefill_chunk = {half.prefill_chunk} saves {human_size(saved)} of workspace, and reads slower."
        )
    findings.append(
        "ram and disk hold pages that leave the device; with them vram may be as small as one chunk's pages."
    )
    shorter = context // _SHORTER
    saved = now - kv_bytes(sizes, shorter, settings.kv_codec, run.page_size)
    findings.append(f"context = {shorter} saves {human_size(saved)}, and leaves turns out of prompts sooner.")
    return Step("What to lower first", tuple(findings), "Change one at a time, and read the gauge's peak mark.")
