"""Records which KV pages a model's attention wants, for the traces that `octavo bench eviction` replays.

    python tests/bench/record_attention.py NAME MODEL.gguf TEXT.txt NUM_PAGES assets/attention.npz

The text is read as a document, and then passages out of it are read again, as answers that quote it. Of each of those
tokens, in each layer, the pages with the most attention mass are kept: what a selection with perfect scores reads.
The first page and the last few are read always, so they are never asked for and are left out.

What lies in assets/attention.npz: `prose`, SmolLM2-135M-Instruct over 256 pages of the topics in Python 3.11's
`pydoc_data`; `code`, Qwen2.5-Coder-0.5B-Instruct over 416 pages of argparse.py, dataclasses.py and tempfile.py.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from octavo.engine.kernels.dispatch import load_kernels
from octavo.engine.model.decoder import Decoder
from octavo.engine.model.rope import attention_scale, rope_table, rotate
from octavo.engine.tokenizer import Tokenizer
from octavo.engine.weights.checkpoint import open_checkpoint

PAGE_SIZE = 32
SELECTED = 16  # pages a token reads in a layer, beside those that every token reads
WINDOW_PAGES = 8
PASSAGES, PASSAGE_TOKENS = 6, 64
_CHUNK = 512  # rows of one forward pass


class RecordingAttention:
    """Plain attention over one sequence that keeps, of its last `num_recorded` rows, the pages with the most mass."""

    def __init__(self, model: Decoder, num_tokens: int, num_recorded: int) -> None:
        spec = model.spec
        shape = (spec.num_layers, spec.num_kv_heads, num_tokens, spec.head_dim)
        self._keys, self._values = (torch.empty(shape, dtype=torch.bfloat16) for _ in range(2))
        self._rope, self._scale = rope_table(spec, num_tokens), attention_scale(spec)
        self._first = num_tokens - num_recorded
        self.start = 0  # position of the chunk's first row
        self.read = np.zeros((spec.num_layers, num_tokens // PAGE_SIZE, num_recorded), dtype=np.bool_)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        stop = self.start + len(q)
        cos, sin = self._rope.cos[self.start : stop, None], self._rope.sin[self.start : stop, None]
        self._keys[layer, :, self.start : stop] = rotate(k.float(), cos, sin).transpose(0, 1)
        self._values[layer, :, self.start : stop] = v.transpose(0, 1)
        q = rotate(q.float(), cos, sin).transpose(0, 1)
        keys, values = self._keys[layer, :, :stop], self._values[layer, :, :stop]
        seen = torch.arange(stop) <= torch.arange(self.start, stop)[:, None]
        if self.start >= self._first:
            self._keep(layer, self._mass(q, keys, seen))
        out = scaled_dot_product_attention(
            q[None].bfloat16(), keys[None], values[None], attn_mask=seen, scale=self._scale, enable_gqa=True
        )
        return out[0].float().transpose(0, 1)

    def _mass(self, q: Tensor, keys: Tensor, seen: Tensor) -> Tensor:
        """Attention probabilities, summed over the query heads: `[rows, tokens]`."""
        mass = torch.zeros(seen.shape)
        group = q.shape[0] // keys.shape[0]
        for head in range(q.shape[0]):
            scores = q[head] @ keys[head // group].float().T * self._scale
            mass += scores.masked_fill_(~seen, -torch.inf).softmax(dim=-1)
        return mass

    def _keep(self, layer: int, mass: Tensor) -> None:
        for row, position in enumerate(range(self.start, self.start + len(mass))):
            candidates = position // PAGE_SIZE - WINDOW_PAGES  # complete pages before the window
            of_page = mass[row, PAGE_SIZE : candidates * PAGE_SIZE].view(-1, PAGE_SIZE).sum(dim=1)
            best = of_page.topk(SELECTED).indices + 1
            self.read[layer, best.numpy(), position - self._first] = True


def record(model: Path, text: Path, num_pages: int) -> NDArray[np.bool_]:
    """Which pages are read, `[layers, num_pages, recorded tokens]`."""
    checkpoint = open_checkpoint(model)
    decoder = Decoder(checkpoint, load_kernels())
    ids = Tokenizer(checkpoint.tokenizer).encode(text.read_text(encoding="utf-8"))
    num_recorded = PASSAGES * PASSAGE_TOKENS
    num_read = num_pages * PAGE_SIZE - num_recorded
    if len(ids) < num_read:
        raise SystemExit(f"{text} has {len(ids)} tokens; {num_read} are needed.")
    ids = ids[:num_read]
    starts = np.random.default_rng(0).integers(PAGE_SIZE, num_read - PASSAGE_TOKENS, PASSAGES)
    tokens = ids + [token for start in starts for token in ids[start : start + PASSAGE_TOKENS]]
    attention = RecordingAttention(decoder, len(tokens), num_recorded)
    edges = [*range(0, num_read, _CHUNK), *range(num_read, len(tokens), PASSAGE_TOKENS), len(tokens)]
    for start, stop in pairwise(edges):
        attention.start = start
        decoder.forward(torch.tensor(tokens[start:stop]), attention, torch.bfloat16)
        print(f"{stop:,} of {len(tokens):,} tokens", file=sys.stderr)
    return attention.read


if __name__ == "__main__":
    name, model, text, num_pages, out = sys.argv[1:]
    with torch.inference_mode():
        read = record(Path(model), Path(text), int(num_pages))
    recorded = dict(np.load(out)) if Path(out).exists() else {}
    np.savez_compressed(out, **(recorded | {name: np.packbits(read, axis=2)}))
