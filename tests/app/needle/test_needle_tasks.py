"""RULER's definitions, checked on what the tasks hide and ask."""

import re
from random import Random

import pytest

from octavo.app.needle.needle_tasks import multi_key, multi_value, single, variables

DEPTHS = [0.1, 0.6]


def test_a_single_needle_is_one_fact_about_one_city_and_no_two_are_alike() -> None:
    depths = [i / 20 for i in range(20)]

    needles, questions = single(Random(0), depths)

    assert [needle.depth for needle in needles] == [question.depth for question in questions] == depths
    values = [question.expected for question in questions]
    assert len(set(values)) == 20
    assert all(re.fullmatch("[1-9][0-9]{4}", value) for (value,) in values)
    kinds, cities = set(), set()
    for needle, question in zip(needles, questions, strict=True):
        assert needle.sentence == f"{question.opening}{question.expected[0]}."
        city = question.opening.split()[-1]
        assert f" {city}" in question.text, "the question names the city"
        kinds.add(needle.sentence.split(city)[0])
        cities.add(city)
    assert len(kinds) == len(cities) == 20


@pytest.mark.parametrize("count", [1, 21, 100])
def test_as_many_facts_as_depths_may_be_asked_for_all_about_other_cities(count: int) -> None:
    needles, questions = single(Random(1), [0.5] * count)

    assert len({needle.sentence for needle in needles}) == len({question.text for question in questions}) == count


def test_multi_key_hides_three_other_keys_for_each_that_is_asked_for() -> None:
    needles, questions = multi_key(Random(0), DEPTHS)

    pairs = [
        re.fullmatch(r"One of the special magic numbers for ([a-z]+-[a-z]+) is: ([0-9]{7})\.", needle.sentence)
        for needle in needles
    ]
    numbers = {pair[1]: pair[2] for pair in pairs if pair}
    assert len(numbers) == len(set(numbers.values())) == 8
    assert [needle.depth for needle in needles] == pytest.approx([0.1, 0.35, 0.6, 0.85, 0.6, 0.85, 0.1, 0.35])
    assert len(questions) == 2
    for question in questions:
        asked = re.search(r"What is the special magic number for (\S+) mentioned", question.text)
        assert asked
        assert question.expected == (numbers[asked[1]],)


def test_multi_value_hides_four_numbers_of_each_key() -> None:
    needles, questions = multi_value(Random(0), DEPTHS)

    assert len(needles) == 8
    for question, depth in zip(questions, DEPTHS, strict=True):
        asked = re.search(r"What are all the special magic numbers for (\S+) mentioned", question.text)
        assert asked
        own = [needle for needle in needles if f" for {asked[1]} is: " in needle.sentence]
        assert [needle.sentence.rsplit(" ")[-1].rstrip(".") for needle in own] == list(question.expected)
        assert own[0].depth == question.depth == depth


def test_a_chain_of_variables_leads_from_the_number_over_four_hops() -> None:
    needles, questions = variables(Random(0), DEPTHS)

    sources = {}
    for needle in sorted(needles, key=lambda needle: needle.depth):
        match = re.fullmatch(r"VAR ([A-Z]{5}) = (?:VAR ([A-Z]{5})|([0-9]{5}))\.", needle.sentence)
        assert match
        assert match[2] is None or match[2] in sources, "a variable is assigned before it is used"
        sources[match[1]] = match[2] or match[3]

    def value_of(name: str) -> str:
        return value_of(sources[name]) if name in sources else name

    assert len(sources) == 10
    for question in questions:
        asked = re.search(r"assigned the value ([0-9]{5}) in the text above", question.text)
        assert asked
        assert len(question.expected) == 5
        assert set(question.expected) == {name for name in sources if value_of(name) == asked[1]}


@pytest.mark.parametrize("task", [single, multi_key, multi_value, variables])
def test_a_seed_hides_the_same_again(task) -> None:  # type: ignore[no-untyped-def]
    def hidden(seed: int) -> list[str]:
        needles, questions = task(Random(seed), DEPTHS)
        return [needle.sentence for needle in needles] + [question.text for question in questions]

    assert hidden(3) == hidden(3)
    assert hidden(3) != hidden(4)
