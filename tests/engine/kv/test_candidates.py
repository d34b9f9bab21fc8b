"""Layers take turns at weighing all far pages; between them nothing that came is overlooked."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo.engine.kv.bounds import SECTION_PAGES
from octavo.engine.kv.candidates import TURNS, Candidates

LAYERS, MOST = 6, 8


@given(start=st.integers(20, 200), far=st.integers(MOST + 1, 40), steps=st.integers(1, 120))
def test_every_layer_weighs_all_pages_in_its_turn_and_looks_at_those_that_came_since(
    start: int, far: int, steps: int
) -> None:
    """Tokens one after the other, a page for every 16."""
    candidates = Candidates(LAYERS, MOST, torch.device("cpu"))
    weighed: list[list[tuple[int, int]]] = [[] for _ in range(LAYERS)]
    for position in range(start, start + steps):
        num_far = far + (position - start) // 16
        due = candidates.due(position, num_far)
        for layer in range(LAYERS):
            if due[layer]:
                weighed[layer].append((position, num_far))
                candidates.looked_at[layer] = torch.arange(MOST)
                continue
            last, then = weighed[layer][-1]
            assert position - last < TURNS
            assert candidates.again(layer, num_far).tolist() == [*range(MOST), *range(then, num_far)]
        candidates.weighed[due] = num_far
    for turns in weighed:
        assert turns[0] == (start, far), "the first token of an answer knows nothing yet"
        assert all(position % TURNS == turns[-1][0] % TURNS for position, _ in turns[1:])


def test_few_pages_are_all_weighed_and_so_are_others_than_before() -> None:
    candidates = Candidates(LAYERS, MOST, torch.device("cpu"))
    candidates.weighed[:] = 20
    position = TURNS * LAYERS + 1
    assert not candidates.due(position, 20)[0]
    assert candidates.due(position, MOST).all()
    assert candidates.due(position, 19).all(), "pages were taken back"
    assert not candidates.due(position, 20 + SECTION_PAGES)[0]
    assert candidates.due(position, 21 + SECTION_PAGES).all(), "more came than there is room for"
