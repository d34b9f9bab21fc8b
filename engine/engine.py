"""Octavo's engine: token ids in, events out. Start reading here, at `Engine.step`.

One thread owns an engine. It never sees text: tokenizing, templates and stop strings belong to its caller.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from octavo.engine.config import EngineConfig, GenerationPolicy
from octavo.engine.errors import ContextTooLongError
from octavo.engine.events import DoneEvent, Event, FinishReason, TokenEvent
from octavo.engine.inspection import Inspection
from octavo.engine.kernels.dispatch import load_kernels, set_num_threads
from octavo.engine.kv.cache import KvCache
from octavo.engine.kv.store import PageStore
from octavo.engine.recovery import Recovery, in_words
from octavo.engine.runner import ModelRunner
from octavo.engine.sampler import Sampler
from octavo.engine.scheduler import Chunk, Scheduler
from octavo.engine.sequence import Sequence
from octavo.engine.weights.checkpoint import Checkpoint, Quantization, open_checkpoint

Logits = list[tuple[Sequence, Tensor]]
"""float32 `[vocab_size]` of every sequence that gets its next token."""

ANONYMOUS = "anonymous"
"""The owner of pages that nobody claims; they can be forgotten like any other's."""


def load(
    path: Path,
    config: EngineConfig | None = None,
    *,
    device: str = "cpu",
    quantization: Quantization = "auto",
    fingerprint: str | None = None,
    store: PageStore | None = None,
) -> Engine:
    """Open a model file or folder and build an engine on it.

    `fingerprint` is the SHA-256 of the weights where the caller knows it already; otherwise the files are hashed.
    `store` keeps pages beyond this process; the caller closes it, after the engine.
    Raises ModelFileError or UnsupportedModelError, naming the file, and ContextTooLongError for a KV budget below
    what the engine needs to run.
    """
    checkpoint = open_checkpoint(path, device=device, quantization=quantization)
    return Engine(checkpoint, config or EngineConfig(), device=device, fingerprint=fingerprint, store=store)


class Engine:
    """Runs any number of requests at once: `submit`, then `step` until their DoneEvent, or `generate` for one."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: EngineConfig,
        *,
        device: str = "cpu",
        fingerprint: str | None = None,
        store: PageStore | None = None,
    ) -> None:
        if config.threads:
            torch.set_num_threads(config.threads)
            set_num_threads(config.threads)
        self.spec = checkpoint.spec
        self.config = config
        self.device = device
        self.kernels = load_kernels(device)
        if config.compute_dtype != "float32":
            checkpoint.rearrange(self.kernels.arrange)
        self.weight_bytes = checkpoint.nbytes
        self.token_weight_bytes = checkpoint.token_nbytes
        fingerprint = fingerprint or checkpoint.fingerprint()
        self.cache = KvCache(self.spec, config, self.kernels, fingerprint, device, store)
        dtype = torch.float32 if config.compute_dtype == "float32" else torch.bfloat16
        self._runner = ModelRunner(
            checkpoint, self.kernels, self.cache, min(self.max_context, self.spec.context_length), dtype
        )
        self._scheduler = Scheduler(self.cache, config)
        self._recovery = Recovery(self.cache, self._scheduler, config, self._give_up)
        self.inspection = Inspection(self)
        self._finished: list[Event] = []
        self._ids = itertools.count(1)

    @property
    def max_context(self) -> int:
        """Longest prompt and answer together: the context of the settings, or what the tiers hold."""
        return min(self.config.context or self.spec.context_length, self.cache.num_tokens)

    @property
    def sequences(self) -> tuple[Sequence, ...]:
        """Those that run, then those that wait."""
        return self._scheduler.all()

    @property
    def state_bytes(self) -> int:
        """Bytes on the device beside weights and pool that stay from step to step: angles, and the softmax state."""
        return self._runner.rope.nbytes + self._runner.state_nbytes

    @property
    def is_idle(self) -> bool:
        return not (self._scheduler.num_running or self._scheduler.num_waiting or self._finished)

    def submit(
        self,
        prompt_ids: list[int],
        policy: GenerationPolicy,
        *,
        eos_ids: frozenset[int] = frozenset(),
        owner: str = "",
    ) -> int:
        """Queue a prompt and return its request id.

        `owner` names the conversation or document that its pages belong to, for `forget`. The answer is cut to what
        the context leaves. Raises ContextTooLongError, before any computing, for a prompt that leaves no room for
        one token, and ValueError for an empty prompt or an unknown token id.
        """
        if not prompt_ids:
            raise ValueError("the prompt is empty; it needs at least one token")
        if not (min(prompt_ids) >= 0 and max(prompt_ids) < self.spec.vocab_size):
            raise ValueError(f"a token id is outside the vocabulary of {self.spec.vocab_size}")
        if len(prompt_ids) >= self.max_context:
            raise ContextTooLongError(self._too_long(len(prompt_ids)))
        sequence = Sequence(
            request_id=next(self._ids),
            token_ids=list(prompt_ids),
            num_prompt=len(prompt_ids),
            limit=min(len(prompt_ids) + policy.max_tokens, self.max_context),
            owner=owner or ANONYMOUS,
            eos_ids=eos_ids,
            sampler=Sampler(policy, self.kernels.sample),
        )
        self._scheduler.add(sequence)
        return sequence.request_id

    def cancel(self, request_id: int, reason: FinishReason = "cancelled") -> None:
        """End a request before the next step; its pages are given back now. Unknown or ended ids are ignored.

        A caller that found a stop string in the text says so with the reason "stop".
        """
        sequence = self._scheduler.find(request_id)
        if sequence is not None:
            self._finish(sequence, reason)

    def forget(self, owner: str) -> int:
        """Drop the pages that belong to `owner` alone, from every tier; returns the bytes freed on disk.

        Its requests end first.
        """
        for sequence in self._scheduler.all():
            if sequence.owner == owner:
                self._finish(sequence, "cancelled")
        self.inspection.forget(owner)
        return self.cache.forget(owner)

    def take_problems(self) -> list[str]:
        """Sentences about pages that could not be kept or read back, each told once. No answer is wrong for them."""
        return self.cache.tiers.take_problems()

    def close(self) -> None:
        """End every request and write down what waits. The engine cannot be used after this."""
        for sequence in self._scheduler.all():
            self._finish(sequence, "cancelled")
        self.cache.shutdown()

    @torch.inference_mode()
    def step(self) -> list[Event]:
        """Advance every running request by one token, or one chunk of its prompt."""
        step = self._scheduler.schedule()
        logits: Logits = []
        for at in range(0, len(step.decode), self._recovery.most_rows):
            rows = step.decode[at : at + self._recovery.most_rows]  # fewer than before, if memory has just run out
            logits += self._recovery.attempt(rows, partial(self._decode, rows))
        if step.prefill is not None:
            logits += self._recovery.attempt([step.prefill.sequence], partial(self._prefill, step.prefill))
        events = self._publish(self._sample(logits))
        return events + self._drain()

    def generate(
        self,
        prompt_ids: list[int],
        policy: GenerationPolicy,
        *,
        eos_ids: frozenset[int] = frozenset(),
        owner: str = "",
    ) -> Iterator[Event]:
        """Events of one request, for a caller that runs no other; leaving the loop early gives every page back."""
        request_id = self.submit(prompt_ids, policy, eos_ids=eos_ids, owner=owner)
        try:
            done = False
            while not done:
                for event in self.step():
                    if event.request_id == request_id:
                        done = isinstance(event, DoneEvent)
                        yield event
        finally:
            self.cancel(request_id)

    def _decode(self, sequences: list[Sequence]) -> Logits:
        """Compute the newest token of each sequence."""
        pages = [sequence.running_pages for sequence in sequences]
        self.cache.begin_step(pages)
        hidden = self._runner.decode(
            [sequence.token_ids[-1] for sequence in sequences],
            [len(sequence.token_ids) - 1 for sequence in sequences],
            pages,
        )
        logits: Logits = []
        for sequence, row in zip(sequences, self._runner.logits(hidden), strict=True):
            try:
                self._advance(sequence, 1)
            except Exception as error:  # its full page finds no place; the others have theirs
                self._give_up(sequence, in_words(error))
            else:
                logits.append((sequence, row))
        return logits

    def _prefill(self, chunk: Chunk) -> Logits:
        """Compute one chunk of what is known of a sequence; the logits are those after its last token."""
        started, sequence = time.perf_counter(), chunk.sequence
        pages = sequence.running_pages
        self.cache.begin_step([pages])
        self.cache.begin_chunk(pages, chunk.length // self.config.page_size)
        tokens = sequence.token_ids[chunk.start : chunk.start + chunk.length]
        question = self.cache.plan.first_of_question(sequence.num_known)
        hidden = self._runner.prefill(tokens, chunk.start, pages, question)
        self._advance(sequence, chunk.length)
        sequence.num_chunked += chunk.length
        logits: Logits = [(sequence, self._runner.logits(hidden[-1:])[0])] if chunk.is_last else []
        sequence.prefill_s += time.perf_counter() - started
        return logits

    def _advance(self, sequence: Sequence, num_tokens: int) -> None:
        """Count tokens whose K and V are written, and publish the pages they filled."""
        sequence.num_computed += num_tokens
        self.cache.publish(sequence.running_pages, sequence.token_ids, sequence.num_computed)

    def _sample(self, logits: Logits) -> list[tuple[Sequence, int]]:
        return [(sequence, sequence.sampler.choose(row, sequence.token_ids)) for sequence, row in logits]

    def _publish(self, tokens: list[tuple[Sequence, int]]) -> list[Event]:
        """Append the new tokens, announce them, and end the answers they end."""
        events: list[Event] = []
        now = time.perf_counter()
        for sequence, token in tokens:
            if token in sequence.eos_ids:
                self._finish(sequence, "stop")
                continue
            sequence.token_ids.append(token)
            sequence.token_times.append(now)
            events.append(TokenEvent(sequence.request_id, token))
            if len(sequence.token_ids) >= sequence.limit:
                self._finish(sequence, "length")
        return events

    def _give_up(self, sequence: Sequence, error: str) -> None:
        self._finish(sequence, "error", error)

    def _finish(self, sequence: Sequence, reason: FinishReason, error: str | None = None) -> None:
        """The one way out for every request, however it ends."""
        pages = self.inspection.ended(sequence)
        self._scheduler.remove(sequence)
        self._finished.append(DoneEvent(sequence.request_id, reason, sequence.metrics(), sequence.policy, error, pages))

    def _drain(self) -> list[Event]:
        finished, self._finished = self._finished, []
        return finished

    def _too_long(self, num_prompt: int) -> str:
        if self.max_context == (self.config.context or self.spec.context_length):
            return (
                f"The prompt has {num_prompt:,} tokens, and {self.spec.name} has a context of "
                f"{self.max_context:,} for prompt and answer together; shorten it."
            )
        return (
            f"The prompt has {num_prompt:,} tokens, and the KV budgets hold {self.max_context:,}; "
            "shorten it or raise vram, ram or disk."
        )
