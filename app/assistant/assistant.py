"""One answer, from messages to text: chat template, engine, streaming text, stop strings. No screen, no files."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from octavo.app.assistant.stop_strings import StopStrings

if TYPE_CHECKING:
    from octavo.app.budgets import Budgets
    from octavo.app.models.resolve import ResolvedModel
    from octavo.app.settings import Settings
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.engine import Engine
    from octavo.engine.events import AnswerMetrics, FinishReason, PagesRead
    from octavo.engine.kv.store import PageStore
    from octavo.engine.tokenizer import Message, Tokenizer
    from octavo.storage.pages import Store
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
    pages: PagesRead | None = None

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
                "reused_from": {
                    "device": metrics.reused_device,
                    "host": metrics.reused_host,
                    "disk": metrics.reused_disk,
                },
                "computed_tokens": metrics.computed_tokens,
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
                    "itl_p99_ms",
                    "tokens_per_s",
                    "e2e_s",
                )
            },
            "policy": {**asdict(self.policy), "stop": list(self.policy.stop)},
            "finish_reason": self.finish_reason,
        }
        if self.pages is not None:
            document["pages"] = asdict(self.pages)
        if self.error is not None:
            document["error"] = self.error
        return document


AnswerEvents = Generator[TextEvent | Answer, None, None]


class Assistant:
    """An engine and the tokenizer of its model; `budgets` say what memory it was given and why.

    `store` keeps its pages over restarts; it is closed with the assistant.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        *,
        budgets: Budgets | None = None,
        store: Store | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.budgets = budgets
        self.store = store
        self._problems = list(problems)

    def take_problems(self) -> list[str]:
        """Sentences about pages that could not be kept or read back, each told once. No answer is wrong for them."""
        problems, self._problems = self._problems + self.engine.take_problems(), []
        return problems

    def close(self) -> None:
        """End what runs, write down the pages that wait, and let go of the page store."""
        self.engine.close()
        if self.store is not None:
            self.store.close()

    def answer(
        self,
        messages: Sequence[Message],
        policy: GenerationPolicy,
        *,
        owner: str | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> AnswerEvents:
        """`answer_prompt` for messages, in the model's own chat format."""
        prompt_ids = self.tokenizer.encode_chat(messages)
        return self.answer_prompt(prompt_ids, policy, owner=owner, is_cancelled=is_cancelled)

    def answer_prompt(
        self,
        prompt_ids: list[int],
        policy: GenerationPolicy,
        *,
        owner: str | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> AnswerEvents:
        """Text as it comes, then the Answer. `is_cancelled` is asked once a step; a cancelled answer is kept.

        `owner` names the conversation that the prompt's pages belong to, for `Engine.forget`. Raises
        ContextTooLongError before anything is computed.
        """
        from octavo.engine.events import TokenEvent

        engine, stream, stops = self.engine, self.tokenizer.stream(), StopStrings(policy.stop)
        text, token_ids, num_told = "", [], 0
        named = {} if owner is None else {"owner": owner}
        request_id = engine.submit(prompt_ids, policy, eos_ids=self.tokenizer.eos_ids, **named)
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
                            event.pages,
                        )
                        return
        finally:
            engine.cancel(request_id)


def open_model(model: ResolvedModel, settings: Settings, paths: Paths) -> Assistant:
    """The assistant on a model that is on this machine. Raises the errors of `load_assistant`."""
    from octavo.app.models.resolve import open_registry

    # Hashing a file takes longer than opening it, so it is done once and remembered.
    fingerprint = open_registry(paths).sha256(model.path) if model.path.is_file() else None
    return load_assistant(model.path, settings, paths, fingerprint=fingerprint)


def load_assistant(path: Path, settings: Settings, paths: Paths, *, fingerprint: str | None = None) -> Assistant:
    """Open the model at `path` as the settings say. Imports torch; call it where its two seconds may pass.

    A page store that cannot be opened is done without, and is one of the assistant's problems. Raises
    ModelFileError or UnsupportedModelError, naming the file and the tensor, and SettingsError for a budget that
    cannot hold the model; both before its weights are read.
    """
    from octavo.app.budgets import choose_device, measure_machine, resolve_budgets
    from octavo.engine.config import AttentionConfig, EngineConfig
    from octavo.engine.engine import Engine
    from octavo.engine.tokenizer import Tokenizer
    from octavo.engine.weight_sizes import read_model
    from octavo.engine.weights.checkpoint import open_checkpoint

    device = choose_device(settings)
    spec, weight_bytes = read_model(path, device=device, quantization=settings.quantization)
    context = settings.context or spec.context_length
    machine, trained = measure_machine(paths), spec.context_length
    budgets = resolve_budgets(settings, spec, weight_bytes, context, device, machine, trained=trained)
    checkpoint = open_checkpoint(path, device=device, quantization=settings.quantization)
    config = EngineConfig(
        page_size=settings.page_size,
        prefill_chunk=settings.prefill_chunk,
        kv_bytes=budgets.kv_bytes,
        host_bytes=budgets.host_bytes,
        context=context,
        attention=AttentionConfig(
            dense_limit=settings.dense_limit or None,
            window=settings.window,
            floor=min(AttentionConfig.floor, settings.selected),
            cap=settings.selected,
        ),
        kv_codec=settings.kv_codec,
        compute_dtype=settings.compute_dtype,
        threads=settings.threads,
    )
    store, problems = _open_store(budgets.disk_bytes, paths)
    try:
        # The engine gives back to a store only pages that it got from it, which its protocol cannot say.
        pages = cast("PageStore | None", store)
        engine = Engine(checkpoint, config, device=device, fingerprint=fingerprint, store=pages)
    except BaseException:
        if store is not None:
            store.close()
        raise
    return Assistant(engine, Tokenizer(checkpoint.tokenizer), budgets=budgets, store=store, problems=problems)


def _open_store(disk_bytes: int, paths: Paths) -> tuple[Store | None, list[str]]:
    """The page store, None where it is off or cannot be opened, and what is wrong with it."""
    from octavo.app.assistant.forgetting import forget, noted
    from octavo.storage.errors import StorageError
    from octavo.storage.pages import open_store

    for owner in noted(paths):  # what could not be forgotten when its conversation was deleted
        forget(paths, owner)
    if not disk_bytes:
        return None, []
    try:
        return open_store(paths.pages_dir, disk_bytes), []
    except StorageError as error:
        return None, [f"Nothing is kept on disk for the next start: {error}"]
