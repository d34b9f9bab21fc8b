"""BERT-family encoders on the CPU, in plain PyTorch: vectors of sentences, and scores of pairs of texts.

Run from a folder with config.json, tokenizer.json and model.safetensors, as sentence-transformers and transformers
write it. BERT (https://arxiv.org/abs/1810.04805), RoBERTa and XLM-RoBERTa, which count positions from another start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.tokenizer.data import read_json

_FAMILIES = ("bert", "roberta", "xlm-roberta")
_BATCH_TOKENS = 4096
_LONGEST = 512
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "relu": functional.relu,
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
}


class _Encoder:
    """The transformer: token ids to hidden states. `prefix` is what stands before its tensors' names."""

    def __init__(self, path: Path) -> None:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        self.config = read_json(path / "config.json")
        family = self.config.get("model_type")
        if family not in _FAMILIES:
            raise UnsupportedModelError(
                f"{path} is a {family} model; encoders of the families {', '.join(_FAMILIES)} run."
            )
        if self.config.get("position_embedding_type", "absolute") != "absolute":
            raise UnsupportedModelError(f"{path} has relative positions, which are not supported.")
        if self.config.get("hidden_act", "gelu") not in _ACTIVATIONS:
            raise UnsupportedModelError(
                f"{path} has the activation {self.config['hidden_act']}, which is not supported."
            )
        try:
            weights = load_file(path / "model.safetensors")
            self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:  # both libraries raise their own
            raise ModelFileError(f"{path} is not a whole encoder: {error}.") from None
        stem = "bert." if family == "bert" else "roberta."
        self.weights: dict[str, Tensor] = {
            name.removeprefix(stem): tensor.float() for name, tensor in weights.items() if tensor.is_floating_point()
        }
        self.num_layers = int(self.config["num_hidden_layers"])
        self._num_heads = int(self.config["num_attention_heads"])
        self._eps = float(self.config.get("layer_norm_eps", 1e-12))
        self._activation = _ACTIVATIONS[self.config.get("hidden_act", "gelu")]
        self._pad = int(self.config.get("pad_token_id") or 0)
        self._first_position = 0 if family == "bert" else self._pad + 1
        positions = int(self.config["max_position_embeddings"]) - self._first_position
        settings = read_json(path / "sentence_bert_config.json", optional=True)
        self._longest = min(settings.get("max_seq_length") or _LONGEST, positions)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._longest)
        self._path = path

    def encodings(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> list[Any]:
        """Tokenized texts, or pairs of texts, cut to the longest that the model reads."""
        return self._tokenizer.encode_batch(list(texts))

    def batches(self, encodings: Sequence[Any]) -> Iterator[list[int]]:
        """Indices of encodings of like length, at most 4,096 padded tokens together."""
        order = sorted(range(len(encodings)), key=lambda index: len(encodings[index].ids))
        batch: list[int] = []
        for index in order:
            if batch and (len(batch) + 1) * len(encodings[index].ids) > _BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def hidden(self, encodings: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Hidden states float32 [n, length, hidden_size] and mask bool [n, length] of one batch."""
        length = max(len(encoding.ids) for encoding in encodings)
        ids = torch.full((len(encodings), length), self._pad)
        kinds = torch.zeros_like(ids)
        mask = torch.zeros_like(ids, dtype=torch.bool)
        for row, encoding in enumerate(encodings):
            count = len(encoding.ids)
            ids[row, :count] = torch.tensor(encoding.ids)
            kinds[row, :count] = torch.tensor(encoding.type_ids)
            mask[row, :count] = True
        x = self._embed(ids, kinds)
        for layer in range(self.num_layers):
            x = self._layer(x, mask, f"encoder.layer.{layer}.")
        return x, mask

    def linear(self, x: Tensor, name: str) -> Tensor:
        """The linear layer of that name."""
        y: Tensor = functional.linear(x, self._get(f"{name}.weight"), self._get(f"{name}.bias"))
        return y

    def _embed(self, ids: Tensor, kinds: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1]) + self._first_position
        table = self._get("embeddings.token_type_embeddings.weight")
        x = self._get("embeddings.word_embeddings.weight")[ids] + table[kinds.clamp(max=table.shape[0] - 1)]
        return self._norm(x + self._get("embeddings.position_embeddings.weight")[positions], "embeddings.LayerNorm")

    def _layer(self, x: Tensor, mask: Tensor, name: str) -> Tensor:
        n, length, size = x.shape
        shape = (n, length, self._num_heads, size // self._num_heads)
        query, key, value = (
            self.linear(x, f"{name}attention.self.{part}").view(shape).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        read = self.linear(read.transpose(1, 2).reshape(n, length, size), f"{name}attention.output.dense")
        x = self._norm(x + read, f"{name}attention.output.LayerNorm")
        inner = self._activation(self.linear(x, f"{name}intermediate.dense"))
        return self._norm(x + self.linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _norm(self, x: Tensor, name: str) -> Tensor:
        y: Tensor = functional.layer_norm(
            x, x.shape[-1:], self._get(f"{name}.weight"), self._get(f"{name}.bias"), self._eps
        )
        return y

    def _get(self, name: str) -> Tensor:
        try:
            return self.weights[name]
        except KeyError:
            raise ModelFileError(f"{self._path} lacks the tensor {name}.") from None


class SentenceEncoder:
    """Sentences to vectors of length 1. Raises ModelFileError or UnsupportedModelError, naming the folder."""

    def __init__(self, path: Path) -> None:
        self._encoder = _Encoder(path)
        self.dimensions = int(self._encoder.config["hidden_size"])
        self._pooling = _pooling(path)

    def encode(self, texts: Sequence[str], *, is_cancelled: Callable[[], bool] = lambda: False) -> np.ndarray | None:
        """Vectors float32 [len(texts), dimensions]; None if cancelled, which is asked once a batch."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        encodings = self._encoder.encodings(texts)
        with torch.inference_mode():
            for batch in self._encoder.batches(encodings):
                if is_cancelled():
                    return None
                x, mask = self._encoder.hidden([encodings[index] for index in batch])
                if self._pooling == "cls":
                    pooled = x[:, 0]
                else:
                    kept = mask[:, :, None].float()
                    pooled = (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
                vectors[batch] = functional.normalize(pooled, dim=-1).numpy()
        return vectors


class CrossEncoder:
    """Pairs of texts to scores: a reranker (one label) or an entailment model (three)."""

    def __init__(self, path: Path) -> None:
        self._encoder = _Encoder(path)
        names = self._encoder.config.get("id2label") or {"0": "score"}
        self.labels = [str(names[key]).lower() for key in sorted(names, key=int)]

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Logits float32 [len(pairs), len(labels)]."""
        scores = np.zeros((len(pairs), len(self.labels)), np.float32)
        encodings = self._encoder.encodings(pairs)
        with torch.inference_mode():
            for batch in self._encoder.batches(encodings):
                x, _ = self._encoder.hidden([encodings[index] for index in batch])
                scores[batch] = self._head(x[:, 0]).numpy()
        return scores

    def _head(self, first: Tensor) -> Tensor:
        """BERT has a pooler and one layer; RoBERTa's two layers belong to the classifier."""
        if "classifier.out_proj.weight" in self._encoder.weights:
            return self._encoder.linear(
                torch.tanh(self._encoder.linear(first, "classifier.dense")), "classifier.out_proj"
            )
        return self._encoder.linear(torch.tanh(self._encoder.linear(first, "pooler.dense")), "classifier")


def _pooling(path: Path) -> Literal["mean", "cls"]:
    file = path / "1_Pooling" / "config.json"
    config = read_json(file) if file.exists() else {"pooling_mode_mean_tokens": True}
    if config.get("pooling_mode_cls_token"):
        return "cls"
    if config.get("pooling_mode_mean_tokens"):
        return "mean"
    raise UnsupportedModelError(f"{path} pools in a way that is not supported; mean and first token are.")
