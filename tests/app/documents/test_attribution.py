"""A sentence without an id is attributed by evidence: numbers, dates, names, words, and where they stand together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from octavo.app.documents.citations import check
from octavo.app.documents.evidence import Source
from octavo.app.documents.facts import values
from octavo.app.documents.support import supports


def sources(*texts: str, solid: bool = False) -> list[Source]:
    """C1, C2, … each a chunk of one document, its first the one that shares the most common words."""
    found, start = [], 0
    document: Any = SimpleNamespace(id="d1", name="paper", pages=[], solid=[])
    for number, text in enumerate(texts, start=1):
        if solid:
            document.solid.append((start, start + len(text)))
        found.append(Source(f"C{number}", document, start, start + len(text), None, (), "", text, text))
        start += len(text)
    return found


def cited(statement: str, among: list[Source]) -> list[str]:
    return [citation.id for citation in check(statement, among).citations]


LEASES = (
    "The lease of flat 3 begins on 1 May 2021. The rent is 1,250 euros a month. Dogs are not allowed.",
    "The lease of flat 4 begins on 1 May 2022. The rent is 1,350 euros a month. Dogs are allowed in the yard.",
    "The lease of flat 5 begins on 1 June 2021. The rent is 1,450 euros a month. Cats are allowed.",
)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("The rent is 1,350 euros a month.", ["C2"]),
        ("The rent is 1450 euros a month.", ["C3"]),
        ("The lease begins on 1 May 2022.", ["C2"]),
        ("The lease begins on 2022-05-01.", ["C2"]),
        ("The lease begins on June 1st, 2021.", ["C3"]),
        ("The rent of flat 5 is 1,450 euros.", ["C3"]),
        ("Dogs are allowed.", ["C2"]),
        ("Dogs are not allowed.", ["C1"]),
        ("Cats are allowed.", ["C3"]),
        ("The rent of flat 5 is 1,350 euros a month.", []),  # the number is another flat's
        ("The lease begins on 1 June 2022.", []),  # month and year are of two leases
        ("Cats are not allowed.", []),
        ("The rent is 1,550 euros a month.", []),
    ],
)
def test_of_near_identical_chunks_the_one_with_the_right_number_date_or_negation(
    statement: str, expected: list[str]
) -> None:
    assert cited(statement, sources(*LEASES)) == expected
    backwards = list(reversed(sources(*LEASES)))
    assert cited(statement, backwards) == expected  # whichever comes first


@pytest.mark.parametrize(
    ("texts", "statement", "expected"),
    [
        # names
        (("Tom presented the accounts.", "Hamid presented the plan."), "Hamid presented the plan.", ["C2"]),
        (("Anna repaired the chain.", "The chain was long."), "Boris repaired the chain.", []),
        (("The buoy was lent by Mr Lund.", "The boat was lent by Mr Berg."), "Mr Berg lent the boat.", ["C2"]),
        (("The buoy was lent by Mr Lund.", "The boat was lent by Mr Berg."), "The boat was lent by Mr Lund.", []),
        # number words and digits
        (("It lasts three years.", "It lasts seven years."), "It lasts 7 years.", ["C2"]),
        (("Fifty-three people wait.", "Fifty-two people wait."), "52 people wait.", ["C2"]),
        # codes
        (("E1 means the tank is empty.", "E3 means the lamp is broken."), "E3 means that the lamp is broken.", ["C2"]),
        (("E1 means the tank is empty. E3 means the lamp is broken.",), "E1 means that the lamp is broken.", []),
        # a number of something else in the same chunk
        (("The rent is 1,250 euros. The deposit is 2,500 euros.",), "The deposit is 1,250 euros.", []),
        (("The rent is 1,250 euros. The deposit is 2,500 euros.",), "The deposit is 2,500 euros.", ["C1"]),
        (("28 euros are paid for a full day and 14 euros for the departure.",), "14 euros are paid a full day.", []),
        # German
        (("Der Beitrag beträgt 90 Euro.", "Der Beitrag beträgt 180 Euro."), "Der Beitrag ist 180 Euro.", ["C2"]),
        (("Die Frist beträgt drei Monate.", "Die Frist beträgt sechs Monate."), "Die Frist: 6 Monate.", ["C2"]),
        (("Gegründet am 8. Juni 1923.", "Gegründet am 9. Juli 1923."), "Gegründet am 9.7.1923.", ["C2"]),
        (("Hunde sind nicht erlaubt.", "Hunde sind im Hof erlaubt."), "Hunde sind nicht erlaubt.", ["C1"]),
        (("Rudern ist im Winter untersagt.", "Rudern ist schön."), "Rudern ist im Winter nicht erlaubt.", ["C1"]),
        (("Die Versammlung ist im Mai.", "Es regnet."), "Die Mitgliederversammlung ist im Mai.", ["C1"]),
        # Chinese
        (("月租金为4800元。", "月租金为5200元。"), "月租金为5200元。", ["C2"]),
        (("租赁期为两年。", "租赁期为三年。"), "租赁期为3年。", ["C2"]),
        (("面积为七十六平方米。", "面积为六十七平方米。"), "面积为67平方米。", ["C2"]),
        (("屋内可以养狗。", "屋内不得养狗。"), "屋内不得养狗。", ["C2"]),
        (("自2022年9月1日起。", "自2022年8月1日起。"), "自2022年8月1日起。", ["C2"]),
    ],
)
def test_numbers_names_codes_and_negations_in_three_languages(
    texts: tuple[str, ...], statement: str, expected: list[str]
) -> None:
    assert cited(statement, sources(*texts)) == expected


def test_the_chunk_that_says_it_is_cited_not_the_first_that_holds_its_words() -> None:
    among = sources(
        "The tenant may sublet rooms. Heating costs are listed in annex B. The tenant pays late fees directly.",
        "Heating is paid by the tenant directly to the supplier.",
    )
    assert cited("The tenant pays directly for the heating, to the supplier.", among) == ["C2"]
    assert cited("Late fees are paid by the tenant.", among) == ["C1"]


def test_chunks_that_say_the_same_are_all_named_and_marked_as_a_tie() -> None:
    same = "Smoking is allowed in the garden alone."
    citations = check(same, sources(f"{same} Bees hum.", "Birds sing. It rains.", f"{same} Bees hum.")).citations
    assert [(citation.id, citation.tied) for citation in citations] == [("C1", True), ("C3", True)]
    alone = check(same, sources("Birds sing.", same)).citations
    assert [(citation.id, citation.tied) for citation in alone] == [("C2", False)]


def test_rows_of_a_table_are_told_apart() -> None:
    table = sources(
        "name | plot | fee\nMoss | 12 | 95\nFinch | 14 | 60", "name | plot | fee\nBirch | 31 | 95", solid=True
    )
    (citation,) = check("Finch has plot 14 and a fee of 60.", table).citations
    assert (citation.id, citation.quote) == ("C1", "Finch | 14 | 60")
    assert cited("Birch has plot 31.", table) == ["C2"]
    assert cited("Finch has plot 31.", table) == []


def test_the_quote_is_the_sentence_that_holds_the_number() -> None:
    (source,) = sources(
        "The rent was discussed. The rent for the house is high. In May the rent is 1,250 euros a month."
    )
    (citation,) = check("The rent is 1,250 euros.", [source]).citations
    assert citation.quote == "In May the rent is 1,250 euros a month."


def test_an_id_that_the_model_gave_is_kept_where_it_holds_and_put_right_where_it_does_not() -> None:
    among = sources(*LEASES)
    right = check("The rent is 1,350 euros a month [C2].", among)
    assert [(c.id, c.by_model, c.supported) for c in right.citations] == [("C2", True, True)]
    put_right = check("The rent is 1,350 euros a month [C1].", among)
    assert [(c.id, c.by_model, c.supported) for c in put_right.citations] == [("C2", False, True)]
    assert put_right.text == "The rent is 1,350 euros a month [C2]."
    nowhere = check("The rent is 1,999 euros a month [C1].", among)
    assert [(c.id, c.by_model, c.supported) for c in nowhere.citations] == [("C1", True, False)]


def test_figures_are_compared_by_value() -> None:
    assert values("1,000") == values("1.000") == values("1000") == values("one thousand") == values("一千")
    assert values("3.50") == values("3,5")
    assert values("3 May 2021") == values("May 3rd, 2021") == values("3. Mai 2021") == values("2021-05-03")
    assert values("2021年5月3日") == values("3.5.2021") == values("3 May 2021")
    assert values("einundzwanzig") == values("twenty-one") == values("二十一") == {"21"}
    assert values("two hundred and fifty-six") == {"256"}
    assert values("€1,250") == values("1.250 Euro")
    assert values("五〇二室") == {"502"}
    assert values("You may go. In March they march.") == frozenset()
    assert values("E3") != values("3")


def test_a_list_of_numbers_in_one_sentence_is_fine() -> None:
    (source,) = sources("The fee is 95 pounds for a full plot and 50 pounds for half of one; keys cost 20 pounds.")
    assert supports(source, "The fee is 95 pounds for a full plot and 50 pounds for half of one.")
    assert not supports(source, "The fee is 50 pounds for a full plot and 95 pounds for half of one.")
    assert supports(source, "Keys cost 20 pounds.")
    assert not supports(source, "Keys cost 95 pounds.")


def test_words_scattered_over_a_chunk_or_in_its_documents_name_bear_nothing_out() -> None:
    (source,) = sources(
        "Thou art a scholar; speak to it. Looks it not pale? I saw him. In the morning a ruler was found. "
        "It was just as I said. The king slept."
    )
    assert not supports(source, "The paper says thou art a just ruler and king.")
    assert supports(source, "In the morning a ruler was found, just as I said.")


def test_what_a_chunk_of_code_says_is_not_looked_for_in_sentences() -> None:
    (source,) = sources(
        "int fill(tank)\n{\n  check(level);\n\n  pump(on);\n  wait(full);\n}\nint drain(tank)", solid=True
    )
    assert supports(source, "fill checks the level of the tank, switches the pump on and waits until it is full")


def test_names_of_a_program_have_to_occur_as_they_are_spelled() -> None:
    among = sources("The function asn1 array2tree creates a structure.", "asn1_delete_structure frees a structure.")
    assert cited("The function asn1_delete_structure frees a structure.", among) == ["C2"]
    assert cited("The function asn1_array2tree creates a structure.", among) == ["C1"]
    assert cited("The function asn1_copy_node creates a structure.", among) == []


def test_a_number_counts_what_stands_with_it() -> None:
    plan = "Anna Berg leads the volunteers; 140 of them are expected. The harbour is old. The stage costs 12,500 euros."
    (source,) = sources(plan)
    assert supports(source, "Anna Berg leads the 140 volunteers.")
    assert not supports(source, "Anna Berg leads the 12,500 volunteers.")
    assert supports(source, "The stage costs 12,500 euros.")
    assert supports(source, "The stage costs EUR 12,500 in all.")
    (german,) = sources("Der Verein hat Mitglieder aus Bremen. Der Vorstand tagt oft. Ein Boot kostet 900 Euro.")
    assert not supports(german, "Der Verein aus Bremen hat 900 Mitglieder.")
