"""A natural-language-inference cross-encoder (DeBERTa-v2/v3) on the CPU: reads pairs of texts, batched.

Run from a folder as transformers writes it. The labels are those of the checkpoint's `id2label`, in its order; a model
that has no label for a contradiction, or gets three plain pairs wrong, is refused: one whose labels are in another
order than it says would turn every verdict around. DeBERTa: https://arxiv.org/abs/2006.03654,
https://arxiv.org/abs/2111.09543.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.sentencepiece import read_pieces
from octavo.engine.tokenizer.data import read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEMPLATE = "[CLS] premise [SEP] hypothesis [SEP]"
_LONGEST = 256  # tokens of a pair
_BATCH_TOKENS = 4096
_NO = ("not_", "non_", "no_", "not-", "non-", "no-", "not ", "non ", "no ")
_A = {"contradiction": "a contradiction", "entailment": "an entailment", "neutral": "neither"}
_CERTAIN = 0.85  # a pair that is none must not be called a contradiction with this much certainty
# A premise, a hypothesis, and what any such model says of them.
KNOWN_PAIRS = (
    ("A man is sleeping in his bed.", "The man is wide awake and running outside.", "contradiction"),
    ("A woman is playing the violin on a stage.", "A woman is playing an instrument.", "entailment"),
    ("The train leaves at nine.", "He likes to paint.", "neutral"),
)


@dataclass(frozen=True, slots=True)
class PairScores:
    """Probabilities of a pair. `entailment` is 0 for a model that only tells contradictions from the rest."""

    contradiction: float
    entailment: float


class CrossEncoder:
    """A loaded model. `fingerprint` is the SHA-256 of its weights and labels, `template` how a pair is written."""

    template = TEMPLATE

    def __init__(self, model: Any, tokenizer: Tokenizer, labels: Sequence[str], fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.labels = tuple(labels)
        self._model = model
        self._tokenizer = tokenizer
        self._contradiction, self._entailment = _places(labels)
        self._cls, self._sep, self._pad = (_special(tokenizer, name) for name in ("[CLS]", "[SEP]", "[PAD]"))

    @property
    def tells_entailment(self) -> bool:
        """False for a model that only tells contradictions from the rest."""
        return self._entailment is not None

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        """Scores of (premise, hypothesis) pairs, in order; similar lengths are read together."""
        ids = [self._encode(premise, hypothesis) for premise, hypothesis in pairs]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        scores: list[PairScores | None] = [None] * len(ids)
        while order:
            batch = [order.pop()]  # the longest decides how many fit
            width = len(ids[batch[0]])
            while order and (len(batch) + 1) * width <= _BATCH_TOKENS:
                batch.append(order.pop())
            for place, found in zip(batch, self._forward([ids[i] for i in batch]), strict=True):
                scores[place] = found
        return [score for score in scores if score is not None]

    def _encode(self, premise: str, hypothesis: str) -> list[int]:
        first, second = (self._tokenizer.encode(text, add_special_tokens=False).ids for text in (premise, hypothesis))
        room = _LONGEST - 3
        half = max(room // 2, room - len(second))
        first = first[:half]
        return [self._cls, *first, self._sep, *second[: room - len(first)], self._sep]

    @torch.inference_mode()
    def _forward(self, ids: Sequence[Sequence[int]]) -> list[PairScores]:
        width = max(map(len, ids))
        padded = torch.tensor([[*row, *[self._pad] * (width - len(row))] for row in ids])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids])
        logits = self._model(input_ids=padded, attention_mask=mask).logits.float()
        found = []
        for row in torch.softmax(logits, dim=-1).tolist():
            entailment = 0.0 if self._entailment is None else row[self._entailment]
            found.append(PairScores(row[self._contradiction], entailment))
        return found


def open_cross_encoder(path: Path) -> CrossEncoder:
    """Load and test the model in a folder.

    Raises ModelFileError for a folder that is incomplete or a model that fails the test, UnsupportedModelError for
    another architecture or labels without a contradiction.
    """
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    config = read_json(path / "config.json")
    if config.get("model_type") != "deberta-v2":
        raise UnsupportedModelError(
            f"{path} is a {config.get('model_type')} model; the NLI models that run are deberta-v2 (which v3 is too)."
        )
    labels = _labels(config, path)
    try:
        model = DebertaV2ForSequenceClassification(DebertaV2Config.from_dict(config))
        _fill(model, path)
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"{path} is not a whole model: {error}.") from None
    encoder = CrossEncoder(model.eval(), _tokenizer(path), labels, _fingerprint(path, labels))
    _test(encoder, path)
    return encoder


def _fill(model: Any, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path / "model.safetensors")
    except SafetensorError as error:
        raise ModelFileError(f"{path / 'model.safetensors'} is damaged: {error}.") from None
    missing, _ = model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=False)
    if missing:
        raise ModelFileError(f"{path} lacks the tensor {missing[0]} ({len(missing)} are missing).")


def _labels(config: dict[str, Any], path: Path) -> list[str]:
    named = config.get("id2label") or {}
    labels = [str(named[key]).casefold() for key in sorted(named, key=int)]
    if not any(label == "contradiction" for label in labels):
        raise UnsupportedModelError(
            f"{path} has the labels {labels}; an NLI model needs one called contradiction in its id2label."
        )
    return labels


def _places(labels: Sequence[str]) -> tuple[int, int | None]:
    """Where the labels of a contradiction and of an entailment stand."""
    entailment = [i for i, label in enumerate(labels) if label.startswith("entail") and not label.startswith(_NO)]
    return list(labels).index("contradiction"), entailment[0] if entailment else None


def _tokenizer(path: Path) -> Tokenizer:
    """From tokenizer.json, or built from spm.model, which older folders have alone."""
    from tokenizers import Tokenizer

    try:
        if (path / "tokenizer.json").is_file():
            tokenizer: Tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            return tokenizer
        return _from_pieces(path)
    except Exception as error:  # tokenizers raises plain Exception
        raise ModelFileError(f"{path} has no tokenizer that can be read: {error}.") from None


def _from_pieces(path: Path) -> Tokenizer:
    from transformers import DebertaV2Tokenizer

    file = path / "tokenizer_config.json"
    settings = read_json(file, optional=True)
    built = DebertaV2Tokenizer(
        vocab=read_pieces(path / "spm.model"),
        do_lower_case=bool(settings.get("do_lower_case", False)),
        split_by_punct=bool(settings.get("split_by_punct", False)),
    )
    tokenizer: Tokenizer = built.backend_tokenizer
    return tokenizer


def _special(tokenizer: Tokenizer, name: str) -> int:
    found = tokenizer.token_to_id(name)
    if found is None:
        raise ModelFileError(f"The tokenizer has no {name}.")
    return int(found)


def _test(encoder: CrossEncoder, path: Path) -> None:
    scores = encoder.read([(premise, hypothesis) for premise, hypothesis, _ in KNOWN_PAIRS])
    for (premise, hypothesis, expected), score in zip(KNOWN_PAIRS, scores, strict=True):
        contradicts = expected == "contradiction"
        right = score.contradiction >= 0.5 if contradicts else score.contradiction < _CERTAIN
        if encoder.tells_entailment and expected != "contradiction":
            right = right and (score.entailment >= 0.5) == (expected == "entailment")
        if not right:
            raise ModelFileError(
                f"{path} is refused: “{premise}” and “{hypothesis}” are {_A[expected]}, and it gives a "
                f"contradiction of {score.contradiction:.2f}; its labels are in another order than its id2label says, "
                "or its files do not belong together."
            )


def _fingerprint(path: Path, labels: Sequence[str]) -> str:
    digest = hashlib.sha256("\x1f".join(labels).encode())
    with (path / "model.safetensors").open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
