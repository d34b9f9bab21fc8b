import re
from itertools import islice
from random import Random

import pytest

from octavo.app.needle.haystacks import HAYSTACKS
from octavo.app.needle.words import countable_words, keys, numbers, play_lines, variable_names, word_list


@pytest.mark.parametrize("kind", HAYSTACKS)
def test_a_seed_makes_the_same_text_again_and_no_number_like_a_needle(kind: str) -> None:
    def text(seed: int) -> str:
        return "".join(islice(HAYSTACKS[kind].segments(Random(seed)), 3000))

    assert text(1) == text(1)
    assert (text(1) != text(2)) == (kind != "sentences")
    assert not re.search(r"\d{5}", text(1))


def test_the_sentences_are_those_of_ruler() -> None:
    text = "".join(islice(HAYSTACKS["sentences"].segments(Random(0)), 6))

    assert text == (
        " The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. The grass is green."
    )


def test_code_compiles() -> None:
    compile("".join(islice(HAYSTACKS["code"].segments(Random(0)), 200)), "haystack", "exec")


def test_prose_is_the_whole_play_before_any_of_it_comes_again_in_another_order() -> None:
    play = sorted(play_lines())
    segments = HAYSTACKS["prose"].segments(Random(3))
    num_segments = sum(len(re.split(r"(?<=[.?!]) ", line)) for line in play)
    first, second = ("".join(islice(segments, num_segments)) for _ in range(2))

    assert len(first) == len(second) == sum(len(line) + 1 for line in play)
    assert all(" " + line in first and " " + line in second for line in play)
    assert first != second
    start = first.index(" ACT II SCENE I. Before PAGE'S house. Enter MISTRESS PAGE, with a letter")
    assert first[start:][:40] not in second, "speeches are in another order"


def test_names_and_numbers_are_distinct() -> None:
    random = Random(0)
    for name, count in (("cities", 100), ("adjectives", 50), ("nouns", 60)):
        assert len(set(word_list(name))) == len(word_list(name)) >= count  # type: ignore[arg-type]
    assert len(set(keys(random, 400))) == 400
    assert all(re.fullmatch("[a-z]+-[a-z]+", key) for key in keys(random, 400))
    assert len({number for number in numbers(random, 400, 7) if re.fullmatch("[1-9][0-9]{6}", number)}) == 400
    assert len({name for name in variable_names(random, 500) if re.fullmatch("[A-Z]{5}", name)}) == 500


def test_there_are_words_to_count_for_a_million_tokens() -> None:
    words = list(islice(countable_words(Random(0)), 70_000))

    assert len(set(words)) == 70_000
    assert all(re.fullmatch("[a-z]{4,}", word) for word in words)
    assert words[:100] != list(islice(countable_words(Random(1)), 100))
