"""Stop strings in a stream, against str.find on the whole text."""

from hypothesis import given
from hypothesis import strategies as st

from octavo.app.assistant.stop_strings import StopStrings

text = st.text("ab.", max_size=20)


@given(st.lists(text, max_size=8), st.lists(st.text("ab.", min_size=1, max_size=4), max_size=3))
def test_shows_everything_before_the_first_stop_string_and_nothing_after(pieces: list[str], stops: list[str]) -> None:
    filter_ = StopStrings(tuple(stops))
    shown = "".join(filter_.push(piece) for piece in pieces) + filter_.finish()
    whole = "".join(pieces)
    # A stream stops at the stop string that is complete first, which need not be the one that begins first.
    ends = [whole.find(stop) + len(stop) for stop in stops if stop in whole]
    assert filter_.found == bool(ends)
    if not ends:
        assert shown == whole
    else:
        assert whole.startswith(shown)
        assert not any(stop in shown for stop in stops)
        assert any(whole[len(shown) :].startswith(stop) for stop in stops)


def test_the_beginning_of_a_stop_string_is_held_back_until_it_is_none() -> None:
    filter_ = StopStrings(("END",))
    assert filter_.push("the E") == "the "
    assert filter_.push("N") == ""
    assert filter_.push("!") == "EN!"
