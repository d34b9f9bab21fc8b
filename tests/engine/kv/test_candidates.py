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


def weighed(num_far: int) -> Candidates:
    """Of layers that have all weighed so many pages."""
    candidates = Candidates(LAYERS, MOST, torch.device("cpu"))
    candidates.weighed[:] = num_far
    return candidates


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
        due = candidates.begin_token(position, num_far)
        for layer in range(LAYERS):
            if due[layer]:
                last[layer], then[layer] = position, num_far
                candidates.looked_at[layer] = torch.arange(MOST)
                continue
            assert last[layer] >= start, "the first token of an answer knows nothing yet"
            turns = -(-num_far // 10)  # one more than for the tokens before, perhaps: then it waits for two rounds
            assert position - last[layer] < 2 * turns
            assert candidates.again(layer, num_far).tolist() == [*range(MOST), *range(then[layer], num_far)]
        candidates.end_token(due, num_far)


def test_in_a_text_that_is_not_long_every_layer_weighs_all() -> None:
    assert weighed(10).begin_token(7, 10).all()
    assert not weighed(11).begin_token(7, 11).all()


def test_a_layer_weighs_no_more_in_a_longer_text() -> None:
    for num_far in (20, 50, 200, 1_000):
        candidates, times = weighed(num_far), 0
        for position in range(1_000):
            due = candidates.begin_token(position, num_far)
            candidates.end_token(due, num_far)
            times += int(due.sum())
        assert times * num_far / 1_000 / LAYERS == pytest.approx(10, rel=0.03)


def test_layers_that_were_due_when_a_token_failed_are_due_for_the_next() -> None:
    candidates = weighed(20)
    due = candidates.begin_token(7, 20)
    assert 0 < due.sum() < LAYERS
    assert (candidates.begin_token(7, 20) == due).all()
    assert candidates.begin_token(8, 20).all(), "in two turns, those and the others"


def test_pages_that_were_taken_back_or_are_too_many_to_be_looked_at_are_weighed() -> None:
    assert not weighed(20).begin_token(1, 20)[0]
    assert weighed(20).begin_token(1, 19).all()
    assert not weighed(20).begin_token(1, 20 + SECTION_PAGES)[0]
    assert weighed(20).begin_token(1, 21 + SECTION_PAGES).all()
