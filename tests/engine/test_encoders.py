"""Encoders against transformers, with tiny random weights of each family."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from octavo.engine.encoders import CrossEncoder, SentenceEncoder
from octavo.engine.errors import ModelFileError, UnsupportedModelError

TEXTS = ["the heron stands", "a", "water and reeds and water " * 20, "the the the"]


def write_tokenizer(path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "heron", "stands", "a", "water", "and", "reeds"]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(path / "tokenizer.json"))


def make(path: Path, family: str, *, labels: int = 0) -> torch.nn.Module:
    import transformers

    torch.manual_seed(0)
    common = {
        "vocab_size": 11, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
        "max_position_embeddings": 70, "pad_token_id": 0,
    }  # fmt: skip
    if family == "xlm-roberta":
        common["type_vocab_size"] = 1
    config_class, plain, classifier = {
        "bert": (transformers.BertConfig, transformers.BertModel, transformers.BertForSequenceClassification),
        "xlm-roberta": (
            transformers.XLMRobertaConfig,
            transformers.XLMRobertaModel,
            transformers.XLMRobertaForSequenceClassification,
        ),
    }[family]
    if labels:
        config = config_class(**common, num_labels=labels)
        model = classifier(config)
    else:
        config = config_class(**common)
        model = plain(config)
    model.eval()
    model.save_pretrained(path)
    write_tokenizer(path)
    return model


def ids_of(path: Path, texts: list[str] | list[tuple[str, str]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.enable_truncation(60)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    encoded = tokenizer.encode_batch(texts)
    columns = ([e.ids for e in encoded], [e.attention_mask for e in encoded], [e.type_ids for e in encoded])
    ids, mask, kinds = (torch.tensor(column) for column in columns)
    return ids, mask, kinds


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_those_of_transformers(tmp_path: Path, family: str, pooling: str) -> None:
    model = make(tmp_path, family)
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 60}))
    (tmp_path / "1_Pooling").mkdir()
    modes = {"pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_cls_token": pooling == "cls"}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    ids, mask, _ = ids_of(tmp_path, TEXTS)
    with torch.no_grad():
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    kept = mask[:, :, None].float()
    pooled = hidden[:, 0] if pooling == "cls" else (hidden * kept).sum(1) / kept.sum(1)
    expected = torch.nn.functional.normalize(pooled, dim=-1).numpy()

    vectors = SentenceEncoder(tmp_path).encode(TEXTS)

    assert vectors is not None
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_scores_of_pairs_are_those_of_transformers(tmp_path: Path, family: str) -> None:
    model = make(tmp_path, family, labels=3)
    pairs = [("the heron", "stands"), ("a", "water and reeds"), ("and and and", "the")]
    ids, mask, kinds = ids_of(tmp_path, pairs)
    with torch.no_grad():
        # XLM-RoBERTa has a single kind of token.
        more = {"token_type_ids": kinds} if family == "bert" else {}
        expected = model(input_ids=ids, attention_mask=mask, **more).logits.numpy()
    encoder = CrossEncoder(tmp_path)
    assert encoder.labels == ["label_0", "label_1", "label_2"]
    np.testing.assert_allclose(encoder.score(pairs), expected, atol=1e-5)


def test_cancelling_and_broken_folders(tmp_path: Path) -> None:
    make(tmp_path, "bert")
    assert SentenceEncoder(tmp_path).encode(TEXTS, is_cancelled=lambda: True) is None
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "t5"}))
    with pytest.raises(UnsupportedModelError, match="t5 model"):
        SentenceEncoder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(ModelFileError, match=r"lacks the tensor encoder\.layer\.2"):
        SentenceEncoder(tmp_path).encode(["a"])
    (tmp_path / "model.safetensors").write_bytes(b"short")
    with pytest.raises(ModelFileError, match="not a whole encoder"):
        SentenceEncoder(tmp_path)
