"""The NLI cross-encoder on a tiny DebertaV2 with fixed weights: labels in any order, the test at load, batching.

Its classifier is solved so that the three known pairs come out right; transformers is the reference for the numbers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.nli import KNOWN_PAIRS, CrossEncoder, open_cross_encoder
from octavo.engine.sentencepiece import read_pieces

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
THREE = ("contradiction", "entailment", "neutral")
Make = Callable[..., Path]


def tokenizer() -> Tokenizer:
    words = sorted({word for pair in KNOWN_PAIRS for text in pair[:2] for word in text.replace(".", " .").split()})
    vocabulary = {token: i for i, token in enumerate((*SPECIAL, *words, "dog", "cat"))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def encode(made: Tokenizer, premise: str, hypothesis: str) -> torch.Tensor:
    first, second = made.encode(premise).ids, made.encode(hypothesis).ids
    return torch.tensor([[1, *first, 2, *second, 2]])


def target(labels: Sequence[str], expected: str) -> list[float]:
    """Logits that say what the pair is, under these labels."""
    said = expected if expected in labels else "not_contradiction"
    return [4.0 if label == said else -4.0 for label in labels]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """make(labels) writes a tiny model whose classifier has the labels in this order; `named` is what it says."""

    def build(labels: Sequence[str] = THREE, named: Sequence[str] | None = None) -> Path:
        torch.manual_seed(7)
        made = tokenizer()
        config = DebertaV2Config(
            vocab_size=made.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=64, relative_attention=True, position_buckets=16, norm_rel_ebd="layer_norm",
            share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0,
            max_position_embeddings=64, pooler_hidden_size=32, pooler_dropout=0.0, num_labels=len(labels),
            initializer_range=0.5,
        )  # fmt: skip
        model = DebertaV2ForSequenceClassification(config).eval()
        with torch.no_grad():
            states = [model.deberta(encode(made, *pair[:2])).last_hidden_state for pair in KNOWN_PAIRS]
            pooled = torch.cat([model.pooler(state) for state in states])
            wanted = torch.tensor([target(labels, pair[2]) for pair in KNOWN_PAIRS])
            model.classifier.weight.copy_(torch.linalg.lstsq(pooled, wanted).solution.T)
            model.classifier.bias.zero_()
        folder = tmp_path / "-".join(labels)
        model.save_pretrained(folder)
        made.save(str(folder / "tokenizer.json"))
        document = json.loads((folder / "config.json").read_text())
        document["id2label"] = {str(i): label for i, label in enumerate(named or labels)}
        (folder / "config.json").write_text(json.dumps(document))
        return folder

    return build


@pytest.mark.parametrize(
    "labels",
    [THREE, ("entailment", "neutral", "contradiction"), ("not_contradiction", "contradiction"),
     ("contradiction", "not_contradiction")],
)  # fmt: skip
def test_labels_are_read_in_the_checkpoints_order(make: Make, labels: Sequence[str]) -> None:
    encoder = open_cross_encoder(make(labels))

    scores = encoder.read([pair[:2] for pair in KNOWN_PAIRS])
    assert [score.contradiction > 0.5 for score in scores] == [True, False, False]
    assert encoder.tells_entailment == ("entailment" in labels)
    assert [score.entailment > 0.5 for score in scores] == [False, encoder.tells_entailment, False]


@pytest.mark.parametrize(
    ("labels", "named"),
    [(THREE, ("entailment", "contradiction", "neutral")),
     (("not_contradiction", "contradiction"), ("contradiction", "not_contradiction"))],
)  # fmt: skip
def test_a_model_whose_labels_are_swapped_is_refused(make: Make, labels: Sequence[str], named: Sequence[str]) -> None:
    with pytest.raises(ModelFileError, match=r"is refused.*id2label"):
        open_cross_encoder(make(labels, named))


def test_a_model_without_a_contradiction_is_refused(make: Make) -> None:
    with pytest.raises(UnsupportedModelError, match="needs one called contradiction"):
        open_cross_encoder(make(THREE, ("LABEL_0", "LABEL_1", "LABEL_2")))


def test_another_architecture_and_a_folder_with_parts_missing_are_refused(make: Make, tmp_path: Path) -> None:
    folder = make()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelFileError, match="no tokenizer"):
        open_cross_encoder(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match="not a whole model"):
        open_cross_encoder(folder)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UnsupportedModelError, match="deberta-v2"):
        open_cross_encoder(folder)
    with pytest.raises(ModelFileError, match="is missing"):
        open_cross_encoder(tmp_path / "nowhere")


def test_batches_of_mixed_lengths_give_what_transformers_gives(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make()
    encoder: CrossEncoder = open_cross_encoder(folder)
    pairs = [
        ("The dog is sleeping", "He likes a cat"),
        ("A cat", "A dog is awake and running outside ."),
        ("dog", "cat"),
    ]
    reference = DebertaV2ForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = [reference(encode(tokenizer(), *pair)).logits[0] for pair in pairs]
    expected = [torch.softmax(row, -1)[0].item() for row in logits]

    together = [score.contradiction for score in encoder.read(pairs * 3)]
    monkeypatch.setattr("octavo.engine.nli._BATCH_TOKENS", 1)
    alone = [score.contradiction for score in encoder.read(pairs)]

    assert together == pytest.approx(expected * 3, abs=1e-5)
    assert alone == pytest.approx(expected, abs=1e-5)
    assert encoder.read([]) == []


def test_the_fingerprint_covers_weights_and_labels(make: Make) -> None:
    folder = make(THREE)
    first = open_cross_encoder(folder).fingerprint
    other = open_cross_encoder(make(("entailment", "neutral", "contradiction"))).fingerprint

    assert first == open_cross_encoder(folder).fingerprint
    assert first != other


def sentencepiece_file(pieces: Sequence[tuple[str, float]]) -> bytes:
    """Pieces as SentencePiece writes them: field 1 of the model, each with text (1), score (2) and type (3)."""
    data = b""
    for text, score in pieces:
        raw = text.encode()
        entry = b"\x0a" + bytes([len(raw)]) + raw + b"\x15" + struct.pack("<f", score) + b"\x18\x01"
        data += b"\x0a" + bytes([len(entry)]) + entry
    return data + b"\x12\x02\x18\x01"


def test_pieces_of_a_sentencepiece_file(tmp_path: Path, make: Make) -> None:
    pieces = [(token, 0.0) for token in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")] + [
        ("▁dog", -2.5),
        ("▁", -3.0),
        ("s", -4.0),
    ]
    (tmp_path / "spm.model").write_bytes(sentencepiece_file(pieces))

    assert read_pieces(tmp_path / "spm.model") == pieces

    folder = make()
    (folder / "tokenizer.json").unlink()
    (folder / "spm.model").write_bytes(sentencepiece_file(pieces))
    from octavo.engine.nli import _tokenizer

    assert _tokenizer(folder).encode("dogs", add_special_tokens=False).tokens == ["▁dog", "s"]


@pytest.mark.parametrize("data", [b"", b"\x0a\x05ab", b"\x0b", b"\x80"])
def test_a_damaged_sentencepiece_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "spm.model").write_bytes(data)
    with pytest.raises(ModelFileError):
        read_pieces(tmp_path / "spm.model")
