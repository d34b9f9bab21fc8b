"""Whether a source bears a statement out: its numbers, names and words, where they belong to each other, and no denial.

Code, not understanding: who does what to whom is seen only where numbers, names or a negation tell it apart. An NLI
model has the last word where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from octavo.app.documents.facts import values
from octavo.app.documents.passages import Statement, context, said_by, spans_of
from octavo.app.documents.question import covered, related
from octavo.app.documents.rivals import counts_something_else, has_another_name, is_german, is_said_of_another, names_of

if TYPE_CHECKING:
    from octavo.app.documents.evidence import Source

_ENOUGH = 0.5  # share of a sentence's words that three sentences have to hold
_NAMES = 0.6  # share of capitalised words, where every noun is written so
_NEGATION = re.compile(
    r"\b(?:not|no)\b(?!\.| only| later| more| less| fewer)|\b(?:cannot|never|nicht|kein\w*|nie|niemals)\b|n['’]t\b|"
    r"\b(?:forbidden|prohibited|banned|verboten|untersagt|unzulässig)\b|不得|不可|不能|不允许|不应|不在|禁止|没有|[未勿]",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:](?=\s)|[，；：、]|\b(?:but|aber|sondern)\b")
_IDENTIFIER = re.compile(r"\b\w+_\w+\b")
_MOST = 0.75  # share of a statement's words that a clause has to hold before it can deny it


class Entailment(Protocol):
    """Says whether a premise entails a statement."""

    def entails(self, premise: str, statement: str) -> bool: ...


def supports(
    source: Source, statement: str, entailment: Entailment | None = None, others: Sequence[Source] = ()
) -> bool:
    """True if a source says what a statement says, as far as code can tell; `others` may say it of something else."""
    said = Statement(statement)
    evidence = " ".join(context(source))
    known = values(evidence)
    if any(figure.value not in known for figure in said.figures if not figure.loose):
        return False
    names = names_of(statement)
    held = _held([name.casefold() for name in names], evidence, statement)
    if len(held) < len(names) * (_NAMES if is_german(statement) else 1.0):
        return False
    if not all(_is_spelled(name, evidence) for name in _IDENTIFIER.findall(statement)) or not _is_near(source, said):
        return False
    if _is_denied(said_by(source), said) or has_another_name(said, source) or counts_something_else(said, source):
        return False
    if is_said_of_another(said, source, others):
        return False
    return entailment is None or entailment.entails(source.text, statement)


def _is_spelled(identifier: str, evidence: str) -> bool:
    """Whether a name of a program's is in the evidence; in the text of a PDF its underscores may be spaces."""
    folded, name = evidence.casefold(), identifier.casefold()
    return name in folded or " ".join(name.replace("_", " ").split()) in " ".join(folded.replace("_", " ").split())


def _is_near(source: Source, said: Statement) -> bool:
    """Whether three sentences in a row, with what stands above them, hold enough of a statement's words.

    Of one or two words all, or a number; and some in the source's own text.
    """
    number = len(said.terms) + len(said.figures)
    least = number if number <= 2 else _ENOUGH * number
    above, stated = (*source.headings, source.head), said_by(source)
    if len(stated) < len(spans_of(source)):
        stated += (source.text,)  # code is not written in sentences
    for place in range(len(stated)):
        text = " ".join((*above, *stated[max(place - 1, 0) : place + 2]))
        known = values(text)
        figures = sum(figure.loose or figure.value in known for figure in said.figures)
        if len(_held(said.terms, text, said.text)) + figures >= least:
            return not said.terms or bool(covered(said.terms, [source.text]))
    return False


def _held(terms: Sequence[str], evidence: str, statement: str) -> list[str]:
    """Those of a statement's terms that the evidence has; in German also in compounds."""
    found = covered(terms, [evidence])
    if len(found) < len(terms) and is_german(statement):
        found += [term for term in related(terms, evidence) if term not in found]
    return found


def _is_denied(sentences: Sequence[str], said: Statement) -> bool:
    """Whether every clause that says most of a statement denies what it says, or says what it denies.

    In English, German and Chinese. Two negations in one clause are left to a model that understands them.
    """
    clauses = [clause for sentence in sentences for clause in _CLAUSE.split(sentence)]
    near = [clause for clause in clauses if said.terms and _share(said.terms, clause) >= _MOST]
    denies = len(_NEGATION.findall(said.text))
    found = [len(_NEGATION.findall(clause)) for clause in near]
    return denies < 2 and bool(found) and all(count < 2 and count != denies for count in found)


def _share(terms: Sequence[str], clause: str) -> float:
    return len(covered(terms, [clause])) / len(terms)
