"""A question that asks for a kind of value is refused where the documents' sentences about it have none."""

from __future__ import annotations

import pytest

from octavo.app.documents.question import terms_of
from octavo.app.documents.refusal import judge
from octavo.app.documents.retrieve import Candidate, Retrieval
from octavo.app.documents.wanted import wanted
from octavo.storage.document_records import StoredChunk, StoredDocument


def retrieval(question: str, text: str, *, is_code: bool = False) -> Retrieval:
    """One chunk, and every word of the question as rare as the others."""
    solid = [[0, len(text)]] if is_code else []
    document = StoredDocument(
        1, "d", "/d", "d", "present", 1, "", "", 1, 1, "", "", "ok", {}, [], solid, len(text), 1, 1
    )  # fmt: skip
    chunk = StoredChunk(1, 1, 0, len(text), None, (), "", text)
    return Retrieval([Candidate(chunk, document)], dict.fromkeys(terms_of(question), 1.0))


@pytest.mark.parametrize(
    ("question", "kind", "answered", "unanswered"),
    [
        ("How much does the shed cost?", "money", "The shed may cost 900 pounds.", "The shed was built at a cost."),
        ("How many foxes were seen?", "many", "Three foxes were seen.", "Foxes were seen at the gate of plot 31."),
        ("When was the mill built?", "past", "The mill was built in 1911.", "The mill was built by the tenant."),
        ("When does the shop open?", "when", "The shop may open after lunch.", "The shop may open to members."),
        ("How long does the pump last?", "duration", "The pump will last nine years.", "The pump will last with luck."),
        ("How heavy are the eggs?", "weight", "The heavy eggs are 90 grams each.", "The eggs are heavy in May."),
        ("How deep is the lake?", "length", "The lake is 38 metres deep.", "The lake is deep and 61 people swim."),
        ("How loud is the pump?", "sound", "The loud pump has 60 dB.", "The loud pump has 9 bar."),
        ("Who won the prize?", "agent", "The prize was won by Ruth.", "The prize, won each year, is a saw."),
        ("Who is the head of the office?", "name", "The office head is Ruth.", "The head of the office decides."),
        ("Where is the desk?", "place", "The desk is in the hall.", "The desk is brown."),
        ("What is the phone number of the desk?", "phone", "The phone number of the desk: 030 123456.",
         "The phone number of the desk is on the wall."),
        ("What colour is the tank?", "colour", "The colour of the tank is green.", "The colour of the tank fades."),
        ("How often is the tank cleaned?", "often", "The tank is cleaned weekly.", "The tank is cleaned by hand."),
        ("Was kostet ein Boot?", "money", "Ein Boot kostet 900 Euro.", "Ein Boot kostet den Verein zu viel."),
        ("Wie viele Boote hat der Verein?", "many", "Der Verein besitzt zwölf Boote.", "Der Verein besitzt Boote."),
        ("Wann wurde das Haus gebaut?", "past", "Das Haus wurde 1911 gebaut.", "Das Haus wurde aus Holz gebaut."),
        ("Wie lange dauert das Programm?", "duration", "Das Programm dauert zwei Stunden.", "Das Programm dauert."),
        ("Wie laut ist die Pumpe?", "sound", "Die laute Pumpe hat 60 Dezibel.", "Die laute Pumpe hat 9 bar."),
        ("净水器多少钱？", "money", "净水器售价900元。", "净水器应安装在厨房水槽下方。"),
        ("水泵的功率是多少？", "power", "水泵功率为60瓦。", "水泵功率不足时停机。"),
        ("客服的电话号码是多少？", "phone", "客服电话号码：400-123-4567。", "客服电话号码请见包装。"),
        ("房屋是哪一年建成的？", "past", "房屋于1998年建成。", "房屋建成后出租。"),
    ],
)  # fmt: skip
def test_values_that_are_asked_for(question: str, kind: str, answered: str, unanswered: str) -> None:
    found = wanted(question)
    assert found is not None
    assert found.kind.name == kind
    assert found.is_in(answered)
    assert not found.is_in(unanswered)
    there, lacking = (judge(retrieval(question, text), question) for text in (answered, unanswered))
    assert (there.refused, there.lacking) == (False, "")
    assert lacking.score < there.score
    if lacking.coverage == 1.0:
        assert (lacking.refused, lacking.lacking) == (True, found.kind.said)


@pytest.mark.parametrize(
    "question",
    ["Why is the tank closed?", "May dogs be kept?", "What does E3 mean?", "Warum flohen sie?", "将者如何？"],
)
def test_other_questions_want_no_value(question: str) -> None:
    assert wanted(question) is None


def test_a_value_in_the_next_sentence_counts_where_it_goes_on() -> None:
    question = "How much does the shed cost?"
    assert not judge(retrieval(question, "The shed has a cost. It is 900 pounds."), question).refused
    assert judge(retrieval(question, "The shed has a cost. Tom paid Lucia nine pounds of honey."), question).refused


def test_a_table_may_have_the_unit_in_its_header() -> None:
    question = "How much do lanterns cost?"
    rows = "Item | cost in euros\nStage | 12,500\nLanterns | 3,400"
    assert not judge(retrieval(question, rows, is_code=True), question).refused


def test_code_may_have_any_value() -> None:
    question = "How many slots has the ring?"
    assert not judge(retrieval(question, "#define SLOTS\nstruct ring slots", is_code=True), question).refused
    assert judge(retrieval(question, "The ring has slots."), question).refused
