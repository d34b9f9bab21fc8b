"""Layers take turns at weighing all far pages; between them nothing that came is overlooked."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.engine.kv.bounds import SECTION_PAGES
from octavo.engine.kv.candidates import Candidates

LAYERS, MOST = 6, 8


@pytest.fixture(autouse=True)
def _ten_pages_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.engine.kv.candidates.MOST_WEIGHED", 10)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(20, 200), far=st.integers(MOST + 1, 60), steps=st.integers(1, 120))
def test_every_layer_weighs_all_pages_in_its_turn_and_looks_at_those_that_came_since(
    start: int, far: int, steps: int
) -> None:
    """Tokens one after the other, a page for every 16."""
    candidates = Candidates(LAYERS, MOST, torch.device("cpu"))
    last, then = [-1] * LAYERS, [0] * LAYERS
    for position in range(start, start + steps):
        num_far = far + (position - start) // 16
        due = candidates.due(position, num_far)
        for layer in range(LAYERS):
            if due[layer]:
                last[layer], then[layer] = position, num_far
                candidates.looked_at[layer] = torch.arange(MOST)
                continue
            assert last[layer] >= start, "the first token of an answer knows nothing yet"
            turns = -(-num_far // 10)  # one more than for the tokens before, perhaps: then it waits for two rounds
            assert position - last[layer] < 2 * turns
            assert candidates.again(layer, num_far).tolist() == [*range(MOST), *range(then[layer], num_far)]
        candidates.weighed[due] = num_far


def test_in_a_text_that_is_not_long_every_layer_weighs_all() -> None:
    candidates = Candidates(LAYERS, MOST, torch.device("cpu"))
    candidates.weighed[:] = 10
    assert candidates.due(7, 10).all()
    assert not candidates.due(7, 11).all()


def test_a_layer_weighs_no_more_in_a_longer_text() -> None:
    for num_far in (20, 50, 200, 1_000):
        candidates = Candidates(LAYERS, MOST, torch.device("cpu"))
        candidates.weighed[:] = num_far
        times = sum(candidates.due(position, num_far).sum() for position in range(1_000))
        assert times * num_far / 1_000 / LAYERS == pytest.approx(10, rel=0.03)


def test_pages_that_were_taken_back_or_are_too_many_to_be_looked_at_are_weighed() -> None:
    candidates = Candidates(LAYERS, MOST, torch.device("cpu"))
    candidates.weighed[:] = 20
    assert not candidates.due(1, 20)[0]
    assert candidates.due(1, 19).all()
    assert not candidates.due(1, 20 + SECTION_PAGES)[0]
    assert candidates.due(1, 21 + SECTION_PAGES).all()
