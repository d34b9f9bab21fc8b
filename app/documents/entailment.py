"""An NLI model that says whether the text a sentence cites bears it out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.engine.nli import CrossEncoder

_ENOUGH = 0.5
_LONGEST = 700  # characters of a premise; more than a model of this kind reads is cut off unseen


def open_entailment(folder: str) -> NliEntailment:
    """The model in a folder. Raises AppError if it is not there, ModelFileError and UnsupportedModelError."""
    from octavo.engine.nli import open_cross_encoder

    path = Path(folder).expanduser()
    if not path.is_dir():
        raise AppError(f"There is no folder {path}; the setting nli names one with config.json and model.safetensors.")
    return NliEntailment(open_cross_encoder(path))


class NliEntailment:
    """A model that only tells contradictions from the rest lets everything pass that is none."""

    def __init__(self, encoder: CrossEncoder) -> None:
        self._encoder = encoder

    def entails(self, premise: str, statement: str) -> bool:
        """True if some stretch of the premise entails the statement."""
        scores = self._encoder.read([(piece, statement) for piece in _stretches(premise)])
        if self._encoder.tells_entailment:
            return max(score.entailment for score in scores) >= _ENOUGH
        return max(score.contradiction for score in scores) < _ENOUGH


def _stretches(text: str) -> list[str]:
    """Sentences together up to what is read, each stretch beginning with the last sentence of the one before."""
    from octavo.app.documents.sentences import sentences

    stretches: list[str] = []
    current: list[str] = []
    for start, end in sentences(text):
        sentence = text[start:end]
        if current and sum(map(len, current)) + len(sentence) > _LONGEST:
            stretches.append(" ".join(current))
            current = current[-1:]
        current.append(sentence)
    return [*stretches, " ".join(current)] if current else [text]
