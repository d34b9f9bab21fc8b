"""One answer, from messages to text: chat template, engine, streaming text, stop strings. No screen, no files."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.app.assistant.stop_strings import StopStrings

if TYPE_CHECKING:
    from octavo.app.models.resolve import ResolvedModel
    from octavo.app.settings import Settings
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.engine import Engine
    from octavo.engine.events import AnswerMetrics, FinishReason
    from octavo.engine.tokenizer import Message, Tokenizer
    from octavo.engine.weights.checkpoint import Checkpoint
    from octavo.storage.paths import Paths


@dataclass(frozen=True, slots=True)
class TextEvent:
    """New text of the answer, never half a character, never part of a stop string; and the ids since the last."""

    text: str
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer, or as much of it as came before it was cut off."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    metrics: AnswerMetrics
    policy: GenerationPolicy
    error: str | None

    def as_json(self, model: str) -> dict[str, Any]:
        """The answer as the plain document `octavo ask --json` prints."""
        return {"text": self.text, "model": model, **self.record()}

    def record(self) -> dict[str, Any]:
        """How the answer came about, in values that JSON has: what is kept beside its text."""
        metrics = self.metrics
        document: dict[str, Any] = {
            "usage": {
                "prompt_tokens": metrics.prompt_tokens,
                "reused_tokens": metrics.reused_tokens,
                "generated_tokens": metrics.generated_tokens,
            },
            "timings": {
                name: round(getattr(metrics, name), 6)
                for name in (
                    "queue_s",
                    "prefill_s",
                    "ttft_s",
                    "itl_p50_ms",
                    "itl_p95_ms",
                    "tokens_per_s",
                    "e2e_s",
                )
            },
            "policy": {**asdict(self.policy), "stop": list(self.policy.stop)},
            "finish_reason": self.finish_reason,
        }
        if self.error is not None:
            document["error"] = self.error
        return document


AnswerEvents = Generator[TextEvent | Answer, None, None]


class Assistant:
    """An engine and the tokenizer of its model."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer) -> None:
        self.engine = engine
        self.tokenizer = tokenizer

    def answer(
        self,
        messages: Sequence[Message],
        policy: GenerationPolicy,
        *,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> AnswerEvents:
        """`answer_prompt` for messages, in the model's own chat format."""
        return self.answer_prompt(self.tokenizer.encode_chat(messages), policy, is_cancelled=is_cancelled)

    def answer_prompt(
        self,
        prompt_ids: list[int],
        policy: GenerationPolicy,
        *,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> AnswerEvents:
        """Text as it comes, then the Answer. `is_cancelled` is asked once a step; a cancelled answer is kept.

        Raises ContextTooLongError before anything is computed.
        """
        from octavo.engine.events import TokenEvent

        engine, stream, stops = self.engine, self.tokenizer.stream(), StopStrings(policy.stop)
        text, token_ids, num_told = "", [], 0
        request_id = engine.submit(prompt_ids, policy, eos_ids=self.tokenizer.eos_ids)
        try:
            while True:
                if is_cancelled():
                    engine.cancel(request_id)
                for event in engine.step():
                    if event.request_id != request_id:
                        continue
                    if isinstance(event, TokenEvent):
                        token_ids.append(event.token_id)
                        new = stops.push(stream.push(event.token_id))
                        if stops.found:
                            engine.cancel(request_id, "stop")
                    else:
                        new = stops.push(stream.finish()) + stops.finish()
                    if new:
                        text += new
                        yield TextEvent(new, tuple(token_ids[num_told:]))
                        num_told = len(token_ids)
                    if not isinstance(event, TokenEvent):
                        yield Answer(
                            text,
                            tuple(token_ids),
                            event.finish_reason,
                            event.metrics,
                            event.policy,
                            event.error,
                        )
                        return
        finally:
            engine.cancel(request_id)


def open_model(model: ResolvedModel, settings: Settings, paths: Paths) -> Assistant:
    """The assistant on a model that is on this machine. Raises the errors of `load_assistant`."""
    from octavo.app.models.resolve import open_registry

    # Hashing a file takes longer than opening it, so it is done once and remembered.
    fingerprint = open_registry(paths).sha256(model.path) if model.path.is_file() else None
    return load_assistant(model.path, settings, fingerprint=fingerprint)


def load_assistant(path: Path, settings: Settings, *, fingerprint: str | None = None) -> Assistant:
    """Open the model at `path` as the settings say. Imports torch; call it where its two seconds may pass.

    Raises ModelFileError or UnsupportedModelError, naming the file and the tensor.
    """
    from octavo.engine.config import EngineConfig
    from octavo.engine.engine import Engine
    from octavo.engine.hardware import choose_device
    from octavo.engine.tokenizer import Tokenizer
    from octavo.engine.weights.checkpoint import open_checkpoint

    device = choose_device(settings.device)
    checkpoint = open_checkpoint(path, device=device, quantization=settings.quantization)
    config = EngineConfig(
        page_size=settings.page_size,
        prefill_chunk=settings.prefill_chunk,
        kv_bytes=settings.kv_memory or _automatic_kv_bytes(checkpoint, settings, device),
        compute_dtype=settings.compute_dtype,
        threads=settings.threads,
    )
    return Assistant(
        Engine(checkpoint, config, device=device, fingerprint=fingerprint), Tokenizer(checkpoint.tokenizer)
    )


def _automatic_kv_bytes(checkpoint: Checkpoint, settings: Settings, device: str) -> int:
    """Room for the whole trained context, where the memory measured now leaves that much."""
    from octavo.engine.hardware import measure_gpus, measure_ram
    from octavo.engine.planner import automatic_kv_bytes, workspace_bytes

    spec = checkpoint.spec
    if device == "cuda":
        available = max((gpu.free for gpu in measure_gpus()), default=0)  # the weights are on it already
    else:
        available = measure_ram().available - checkpoint.nbytes  # mapped, and read into memory as they are used
    workspace = workspace_bytes(spec, spec.context_length, prefill_chunk=settings.prefill_chunk)
    return automatic_kv_bytes(spec, spec.context_length, available, page_size=settings.page_size, workspace=workspace)
