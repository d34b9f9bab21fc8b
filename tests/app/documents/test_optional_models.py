"""Models that a person may name in the settings: one that orders passages, one that reads whether a source entails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from octavo.app.documents.citations import check
from octavo.app.documents.entailment import NliEntailment, open_entailment
from octavo.app.documents.evidence import Source
from octavo.app.documents.reranker import open_reranker
from octavo.app.errors import AppError
from octavo.engine import encoders
from octavo.engine.nli import PairScores


class Nli:
    """Entails where the premise holds the word "yes", contradicts where it holds "never"; remembers the premises."""

    def __init__(self, *, tells_entailment: bool = True) -> None:
        self.tells_entailment = tells_entailment
        self.premises: list[str] = []

    def read(self, pairs: list[tuple[str, str]]) -> list[PairScores]:
        self.premises += [premise for premise, _ in pairs]
        return [PairScores(0.9 if "never" in p else 0.1, 0.9 if "yes" in p else 0.1) for p, _ in pairs]


def test_any_stretch_of_a_long_source_may_bear_a_sentence_out() -> None:
    nli = Nli()
    model = NliEntailment(nli)  # type: ignore[arg-type]
    long = "The heron stands in the reeds and waits. " * 60
    assert model.entails(f"{long}It says yes. {long}", "It agrees.")
    assert len(nli.premises) > 5
    assert max(map(len, nli.premises)) < 900
    assert not model.entails(long, "It agrees.")


def test_a_model_that_only_tells_contradictions_passes_what_is_none() -> None:
    model = NliEntailment(Nli(tells_entailment=False))  # type: ignore[arg-type]
    assert model.entails("The heron stands in the reeds.", "It agrees.")
    assert not model.entails("The heron stands in the reeds. It never agrees.", "It agrees.")


def test_a_sentence_whose_words_are_all_there_is_not_borne_out_where_the_model_says_so() -> None:
    document: Any = type("Document", (), {"id": "d", "name": "d", "pages": [], "solid": []})()
    text = "The tenant pays the rent, the landlord pays the heating."
    source = Source("C1", document, 0, len(text), None, (), "", text, text)
    turned = "The landlord pays the rent, the tenant pays the heating [C1]."
    assert check(turned, [source]).unsupported == ()
    model = NliEntailment(Nli())  # type: ignore[arg-type]
    checked = check(turned, [source], model)
    assert checked.unsupported == ("The landlord pays the rent, the tenant pays the heating.",)
    assert checked.citations[0].supported is False


def test_folders_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="the setting nli names one"):
        open_entailment(str(tmp_path / "gone"))
    with pytest.raises(AppError, match="the setting reranker names one"):
        open_reranker(str(tmp_path / "gone"))


def test_a_model_with_several_labels_orders_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Encoder:
        labels = ("contradiction", "entailment", "neutral")

        def __init__(self, path: Path) -> None: ...

    monkeypatch.setattr(encoders, "CrossEncoder", Encoder)
    with pytest.raises(AppError, match="gives 3 scores for a pair"):
        open_reranker(str(tmp_path))
    Encoder.labels = ("score",)  # type: ignore[assignment]
    assert isinstance(open_reranker(str(tmp_path)), Encoder)
