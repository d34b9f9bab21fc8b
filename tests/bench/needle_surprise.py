"""How sure a model is of the needles it is asked for: finer than counting those it finds, for comparing what is read.

    python tests/bench/needle_surprise.py MODEL.gguf TOKENS SEEDS [--haystack H] [--dense-limit N] [--trained N]

The texts and questions of `octavo bench needle --task single --depths 10`, with the bench's codec and attention. A
value's digits are given to the model one after the other, however it would have gone on; its surprise is the sum of
their negative log-probabilities, in nats. A value counts as found where every digit was the likeliest. --trained takes
the model as trained on so many tokens: what a page's selection loses past that length then shows at a small one.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from octavo.app.needle.contexts import even_depths, needle_context, prompt
from octavo.engine.config import AttentionConfig
from octavo.engine.fidelity import Variant, pool_config
from octavo.engine.kernels.dispatch import load_kernels
from octavo.engine.kv.cache import KvCache
from octavo.engine.runner import ModelRunner
from octavo.engine.tokenizer import Tokenizer
from octavo.engine.weights.checkpoint import Checkpoint, open_checkpoint

CODEC: Final = "k8v4"


class Reader:
    """One model and its pages, with room for one text of `tokens` and the questions about it."""

    def __init__(self, checkpoint: Checkpoint, tokens: int, attention: AttentionConfig) -> None:
        kernels = load_kernels()
        config = pool_config(checkpoint, Variant("", CODEC), "bfloat16", 32, 512, 2 * tokens)
        config = replace(config, attention=attention)
        self._chunk, self._page = config.prefill_chunk, config.page_size
        self._cache = KvCache(checkpoint.spec, config, kernels, "", "cpu")
        self._runner = ModelRunner(checkpoint, kernels, self._cache, 2 * tokens, torch.bfloat16)

    def logits(self, asked: list[int], value: list[int]) -> Tensor:
        """Logits, float32 [len(value), vocab_size], of every token of `value` after `asked` and those before it."""
        cache, ids = self._cache, [*asked, *value[:-1]]
        pages, question = cache.open(asked, "needle"), cache.plan.first_of_question(len(asked))
        for start in range(pages.num_complete * self._page, len(asked), self._chunk):
            chunk = asked[start : start + self._chunk]
            cache.begin_step([pages])
            cache.begin_chunk(pages, len(chunk) // self._page)
            hidden = self._runner.prefill(chunk, start, pages, question)
            cache.publish(pages, ids, start + len(chunk))
        states = [hidden[-1:]]
        for position in range(len(asked), len(ids)):
            cache.begin_step([pages])
            states.append(self._runner.decode([ids[position]], [position], [pages]))
            cache.publish(pages, ids, position + 1)
        cache.close(pages)
        return self._runner.logits(torch.cat(states))


def measure(
    checkpoint: Checkpoint, tokens: int, attention: AttentionConfig, haystack: str, seed: int
) -> tuple[int, float]:
    """How many of ten values are found, and the mean surprise."""
    tokenizer, reader = Tokenizer(checkpoint.tokenizer), Reader(checkpoint, tokens, attention)
    context = needle_context(tokenizer, "single", haystack, tokens, even_depths(10), seed)
    found, surprise = 0, 0.0
    for question in context.questions:
        value = tokenizer.encode(question.expected[0])
        scores = torch.log_softmax(reader.logits(prompt(tokenizer, context.ids, question), value), dim=-1)
        wanted = torch.tensor(value)
        found += bool((scores.argmax(dim=-1) == wanted).all())
        surprise -= float(scores.gather(1, wanted[:, None]).sum())
    return found, surprise / len(context.questions)


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("tokens", type=int)
    parser.add_argument("seeds", type=int)
    parser.add_argument("--haystack", default="sentences")
    parser.add_argument("--dense-limit", type=int)
    parser.add_argument("--trained", type=int)
    given = parser.parse_args()
    with torch.inference_mode():
        opened, read = open_checkpoint(given.model), AttentionConfig(dense_limit=given.dense_limit)
        if given.trained:
            opened = replace(opened, spec=replace(opened.spec, context_length=given.trained))
        for seed in range(given.seeds):
            found, surprise = measure(opened, given.tokens, read, given.haystack, seed)
            print(f"seed {seed}: {found} of 10 found, surprise {surprise:.3f} nats", flush=True)
