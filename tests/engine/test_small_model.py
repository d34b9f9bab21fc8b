"""The small real model against its own dequantized weights in transformers."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from octavo.engine.config import EngineConfig, GenerationPolicy
from octavo.engine.engine import load
from octavo.engine.events import TokenEvent
from octavo.engine.tokenizer import Message, Tokenizer
from octavo.engine.weights.checkpoint import open_checkpoint

TIE = 1e-3
GREEDY = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=64)
QUESTIONS = [
    "What is the capital of France?",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Erzähle mir in drei Sätzen von einem Fuchs. 狐の話をしてください。",
]

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def reference(small_model: Path) -> torch.nn.Module:
    model = AutoModelForCausalLM.from_pretrained(small_model.parent, gguf_file=small_model.name, dtype=torch.float32)
    return model.eval()


@torch.inference_mode()
def shortfalls(reference: torch.nn.Module, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """How far the reference's logit of each token of `answer` is below its highest: 0 where it agrees."""
    logits = reference(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    return logits.amax(-1) - logits.gather(1, torch.tensor(answer)[:, None])[:, 0]


@pytest.mark.parametrize("question", QUESTIONS)
def test_greedy_tokens_are_those_of_the_dequantized_weights(
    small_model: Path, reference: torch.nn.Module, question: str
) -> None:
    """In float32; a token within 1e-3 of the reference's best is a tie, which either may break."""
    exact = EngineConfig(compute_dtype="float32", kv_codec="f32", kv_bytes=64 * 2**20)
    engine = load(small_model, exact, fingerprint="small")
    tokenizer = Tokenizer(open_checkpoint(small_model).tokenizer)
    prompt = tokenizer.encode_chat([Message("user", question)])
    events = engine.generate(prompt, GREEDY, eos_ids=tokenizer.eos_ids)
    answer = [event.token_id for event in events if isinstance(event, TokenEvent)]
    assert len(answer) > 5
    found = shortfalls(reference, prompt, answer)
    ties = [(place, gap) for place, gap in enumerate(found.tolist()) if gap > 0]
    assert all(gap <= TIE for _, gap in ties), f"not the greedy choice at (place, gap): {ties}"
