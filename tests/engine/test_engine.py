"""The engine's loop: batching, reuse, cancelling, failing. Weights matter in few of these, so most use a fake."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from octavo.engine.config import EngineConfig, GenerationPolicy
from octavo.engine.engine import Engine, load
from octavo.engine.errors import ContextTooLongError
from octavo.engine.events import DoneEvent, Event, TokenEvent
from octavo.engine.kv.sequence_pages import SequencePages

GREEDY = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=12)
PAGE = 8


class FakeRunner:
    """Always expects the token after the last one it saw, modulo the vocabulary."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.steps: list[tuple[str, int]] = []
        self.fail = False

    def prefill(
        self, token_ids: list[int], start: int, pages: SequencePages, question: int | None = None
    ) -> torch.Tensor:
        return self._run("prefill", token_ids)

    def decode(self, token_ids: list[int], positions: list[int], pages: list[SequencePages]) -> torch.Tensor:
        return self._run("decode", token_ids)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        successors = (hidden.view(-1).long() + 1) % self.vocab_size
        return torch.nn.functional.one_hot(successors, self.vocab_size).float()

    def _run(self, kind: str, token_ids: list[int]) -> torch.Tensor:
        if self.fail:
            raise RuntimeError("out of memory, says the device")
        self.steps.append((kind, len(token_ids)))
        return torch.tensor(token_ids).view(-1, 1)


@pytest.fixture(scope="module")
def tiny(make_hf_folder: Callable[..., Path]) -> Path:
    return make_hf_folder("llama")


def engine_of(folder: Path, **config: object) -> Engine:
    defaults: dict[str, object] = {
        "page_size": PAGE,
        "prefill_chunk": 32,
        "kv_codec": "f32",
        "compute_dtype": "float32",
    }
    return load(folder, EngineConfig(**(defaults | config)), quantization="none", fingerprint="tiny")  # type: ignore[arg-type]


def faked(folder: Path, **config: object) -> tuple[Engine, FakeRunner]:
    engine = engine_of(folder, **config)
    runner = FakeRunner(engine.spec.vocab_size)
    engine._runner = runner  # type: ignore[assignment]
    return engine, runner


def budget(folder: Path, num_pages: int) -> int:
    """Device bytes for so many complete pages, and the unfinished ones of every sequence."""
    cache = engine_of(folder).cache
    return num_pages * cache.page_bytes + cache.pool.tails.nbytes


def finish(engine: Engine) -> Iterator[Event]:
    while not engine.is_idle:
        yield from engine.step()


def answers(events: Iterator[Event] | list[Event]) -> tuple[dict[int, list[int]], dict[int, DoneEvent]]:
    tokens: dict[int, list[int]] = {}
    done: dict[int, DoneEvent] = {}
    for event in events:
        assert event.request_id not in done, "nothing follows a DoneEvent"
        if isinstance(event, TokenEvent):
            tokens.setdefault(event.request_id, []).append(event.token_id)
        else:
            done[event.request_id] = event
    return tokens, done


def test_several_requests_at_once_get_what_each_gets_alone(tiny: Path) -> None:
    generator = random.Random(5)
    prompts = [[generator.randrange(320) for _ in range(n)] for n in (3, 41, 8, 100)]
    alone = []
    for prompt in prompts:
        tokens, _ = answers(list(engine_of(tiny).generate(prompt, GREEDY)))
        alone.append(tokens[1])
    engine = engine_of(tiny)
    ids = [engine.submit(prompt, GREEDY) for prompt in prompts]
    tokens, done = answers(finish(engine))
    assert [tokens[request] for request in ids] == alone
    assert all(event.finish_reason == "length" for event in done.values())
    engine.cache.check_conservation()


def test_a_second_turn_reuses_every_complete_page_and_answers_the_same(tiny: Path) -> None:
    prompt = [random.Random(1).randrange(320) for _ in range(45)]
    warm = engine_of(tiny)
    tokens, _ = answers(list(warm.generate(prompt, GREEDY)))
    conversation = prompt + tokens[1] + [7, 8, 9]
    again, done = answers(list(warm.generate(conversation, GREEDY)))
    cold, cold_done = answers(list(engine_of(tiny).generate(conversation, GREEDY)))
    # The last token of an answer is never computed, so 45 + 11 tokens filled 7 pages.
    assert done[2].metrics.reused_tokens == 7 * PAGE
    assert done[2].metrics.computed_tokens == len(conversation) - 7 * PAGE
    assert cold_done[1].metrics.reused_tokens == 0
    assert again[2] == cold[1]


def test_a_prompt_that_fills_its_pages_exactly_still_computes_its_last_token(tiny: Path) -> None:
    engine, _ = faked(tiny)
    prompt = list(range(4 * PAGE))
    list(engine.generate(prompt, GREEDY))
    _, done = answers(list(engine.generate(prompt, GREEDY)))
    assert done[2].metrics.reused_tokens == 3 * PAGE


def test_a_step_runs_all_that_decode_and_one_chunk_of_one_prompt(tiny: Path) -> None:
    engine, runner = faked(tiny, prefill_chunk=16)
    first = engine.submit([1, 2, 3], GREEDY)
    engine.step()
    second = engine.submit(list(range(100, 120)), GREEDY)
    third = engine.submit(list(range(200, 220)), GREEDY)
    for _ in range(4):
        engine.step()
    assert runner.steps == [
        ("prefill", 3),
        ("decode", 1), ("prefill", 16),
        ("decode", 1), ("prefill", 4),
        ("decode", 2), ("prefill", 16),
        ("decode", 2), ("prefill", 4),
    ]  # fmt: skip
    tokens, done = answers(finish(engine))
    assert set(done) == {first, second, third}
    assert tokens[third][-1] == 220 + GREEDY.max_tokens - 1


def test_cancel_stops_within_one_step_and_gives_every_page_back(tiny: Path) -> None:
    engine, runner = faked(tiny)
    request = engine.submit(list(range(50)), GREEDY)
    events = engine.step() + engine.step() + engine.step()
    engine.cancel(request)
    assert engine.cache.table.num_held == 0
    steps = len(runner.steps)
    events += engine.step()
    assert len(runner.steps) == steps, "nothing is computed for a cancelled request"
    tokens, done = answers(events)
    assert done[request].finish_reason == "cancelled"
    assert done[request].metrics.generated_tokens == len(tokens[request]) == 2
    assert engine.is_idle


def test_leaving_generate_early_gives_every_page_back(tiny: Path) -> None:
    engine, _ = faked(tiny)
    events = engine.generate(list(range(50)), GREEDY)
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert engine.cache.table.num_held == 0
    engine.cache.check_conservation()


def test_a_failing_step_ends_its_answers_with_the_reason_and_the_engine_goes_on(tiny: Path) -> None:
    engine, runner = faked(tiny)
    request = engine.submit([1, 2, 3], GREEDY)
    engine.step()
    runner.fail = True
    _, done = answers(engine.step())
    assert done[request].finish_reason == "error"
    assert done[request].error == "RuntimeError: out of memory, says the device"
    assert engine.cache.table.num_held == 0
    runner.fail = False
    tokens, _ = answers(list(engine.generate([5], GREEDY)))
    assert tokens[2] == list(range(6, 18))


def test_an_end_token_ends_the_answer_and_is_not_announced(tiny: Path) -> None:
    engine, _ = faked(tiny)
    tokens, done = answers(list(engine.generate([5], GREEDY, eos_ids=frozenset({9}))))
    assert tokens[1] == [6, 7, 8]
    assert done[1].finish_reason == "stop"
    assert done[1].metrics.generated_tokens == 3


def test_requests_wait_for_pages_in_order_and_all_finish(tiny: Path) -> None:
    engine, _ = faked(tiny, kv_bytes=budget(tiny, 5))
    # Each completes 2 pages with its prompt and 1 with its answer: one runs, the others wait.
    ids = [engine.submit(list(range(first, first + 16)), GREEDY) for first in (0, 50, 100)]
    tokens, done = answers(finish(engine))
    assert list(done) == ids
    assert all(len(tokens[request]) == GREEDY.max_tokens for request in ids)
    assert done[ids[2]].metrics.queue_s > done[ids[1]].metrics.queue_s > done[ids[0]].metrics.queue_s
    engine.cache.check_conservation()


def test_a_waiting_prompt_is_looked_up_again_only_when_pages_changed(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = faked(tiny, kv_bytes=budget(tiny, 8))
    looked_up: list[int] = []
    opened = engine.cache.open
    monkeypatch.setattr(
        engine.cache, "open", lambda tokens, owner: looked_up.append(tokens[0]) or opened(tokens, owner)
    )
    policy = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=40)
    engine.submit(list(range(16)), policy)
    waiting = engine.submit(list(range(100, 116)), policy)
    steps = 0
    tokens: dict[int, list[int]] = {}
    while waiting not in tokens:
        steps += 1
        tokens, _ = answers(engine.step())
    # Once when it came, once for each of the 6 pages the first one filled after that, and once when that one left.
    assert steps > 40
    assert looked_up.count(100) <= 8


def test_a_thousand_short_turns_with_cancels_conserve_pages(tiny: Path) -> None:
    engine, runner = faked(tiny, kv_bytes=budget(tiny, 20))
    generator = random.Random(11)
    for turn in range(1000):
        start = generator.randrange(300)
        length = generator.randrange(1, 40)
        request = engine.submit([(start + i) % 320 for i in range(length)], GREEDY)
        for _ in range(generator.randrange(8)):
            engine.step()
        if generator.random() < 0.3:
            engine.cancel(request)
        runner.fail = generator.random() < 0.02
        if turn % 50 == 0:
            engine.cache.check_conservation()
    runner.fail = False
    list(finish(engine))
    engine.cache.check_conservation()
    assert engine.cache.table.num_held == 0


def test_a_prompt_that_cannot_fit_is_refused_before_computing(tiny: Path) -> None:
    engine, runner = faked(tiny, kv_bytes=budget(tiny, 2))
    with pytest.raises(ContextTooLongError, match=r"16 tokens, and the KV budgets hold 16; .* raise vram"):
        engine.submit([1] * 16, GREEDY)
    assert not runner.steps
    engine, runner = faked(tiny)
    context = engine.spec.context_length
    with pytest.raises(ContextTooLongError, match=f"has a context of {context:,} for prompt and answer"):
        engine.submit([1] * context, GREEDY)


def test_a_budget_that_no_page_fits_is_refused(tiny: Path) -> None:
    with pytest.raises(ContextTooLongError, match="less than this model needs to run"):
        engine_of(tiny, kv_bytes=100)


def test_the_answer_is_cut_to_what_the_context_leaves(tiny: Path) -> None:
    engine, _ = faked(tiny, kv_bytes=budget(tiny, 2))
    tokens, done = answers(list(engine.generate(list(range(10)), GREEDY)))
    assert len(tokens[1]) == 6
    assert done[1].finish_reason == "length"


@pytest.mark.parametrize("prompt", [[], [-1], [320]])
def test_impossible_token_ids_are_refused(tiny: Path, prompt: list[int]) -> None:
    engine, _ = faked(tiny)
    with pytest.raises(ValueError, match="token"):
        engine.submit(prompt, GREEDY)


def test_the_seed_that_was_drawn_repeats_the_answer(tiny: Path) -> None:
    varied = GenerationPolicy(temperature=1.5, top_k=0, top_p=1.0, max_tokens=10)
    tokens, done = answers(list(engine_of(tiny).generate([1, 2, 3], varied)))
    again, _ = answers(list(engine_of(tiny).generate([1, 2, 3], done[1].policy)))
    assert done[1].policy.seed is not None
    assert again == tokens
