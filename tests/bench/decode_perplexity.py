"""How exact decoding is: `python tests/bench/decode_perplexity.py MODEL.gguf [TOKENS]`.

The same tokens of the bundled play, token by token as an answer is written, and in chunks as a prompt is read, against
prefill in float32 with the weights as they lie in the file: perplexity, mean KL and how often the likeliest token is
the same. KV pages in bf16 (float32 for the reference), everything read.
"""

import math
import sys
from pathlib import Path

import torch
from torch import Tensor

from octavo.engine.config import ComputeDtype, EngineConfig
from octavo.engine.engine import Engine
from octavo.engine.tokenizer import Tokenizer
from octavo.engine.weights.checkpoint import open_checkpoint

CHUNK = 512
PLAY = Path(__file__).parents[2] / "assets" / "merry_wives.txt"


def log_probabilities(
    model: Path, text: str, count: int, dtype: ComputeDtype, *, decodes: bool
) -> tuple[Tensor, Tensor]:
    """Float32 [count - 1, vocabulary] after each token but the last, and the tokens that follow."""
    checkpoint = open_checkpoint(model)
    ids = Tokenizer(checkpoint.tokenizer).encode(text)[:count]
    codec = "f32" if dtype == "float32" else "bf16"
    engine = Engine(checkpoint, EngineConfig(context=2 * count, kv_codec=codec, compute_dtype=dtype), fingerprint=dtype)
    runner, cache, rows = engine._runner, engine.cache, []
    pages = cache.open(ids, "bench")
    step = 1 if decodes else CHUNK
    for start in range(0, count, step):
        chunk = ids[start : start + step]
        cache.begin_step([pages])
        if decodes:
            hidden = runner.decode(chunk, [start], [pages])
        else:
            cache.begin_chunk(pages, len(chunk) // cache.page_size)
            hidden = runner.prefill(chunk, start, pages)
        rows += [runner.logits(part).log_softmax(-1) for part in hidden.split(64)]
        cache.publish(pages, ids[: start + len(chunk)], start + len(chunk))
    return torch.cat(rows)[:-1], torch.tensor(ids[1:])


@torch.inference_mode()
def main() -> None:
    model, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    text = PLAY.read_text(encoding="utf-8")[20_000 : 20_000 + 8 * count]
    exact, following = log_probabilities(model, text, count, "float32", decodes=False)
    at = torch.arange(len(following))
    print(f"float32: perplexity {math.exp(-exact[at, following].mean()):.3f}")
    for name, decodes in (("prefill in bfloat16", False), ("decoding", True)):
        found, _ = log_probabilities(model, text, count, "auto", decodes=decodes)
        divergence = (exact.exp() * (exact - found)).sum(-1).mean()
        same = (exact.argmax(-1) == found.argmax(-1)).float().mean()
        perplexity = math.exp(-found[at, following].mean())
        print(f"{name}: perplexity {perplexity:.3f}, mean KL {divergence:.6f}, same likeliest token {100 * same:.2f} %")


if __name__ == "__main__":
    main()
