"""Sampling against transformers' logits processors."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from octavo.engine.config import GenerationPolicy
from octavo.engine.errors import PolicyError
from octavo.engine.kernels.sampling import lowest_kept
from octavo.engine.sampler import Sampler, SeenTokens, penalize_repetition

VOCABULARY = 50


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    temperature=st.floats(0.1, 3.0),
    top_k=st.integers(0, 60),
    top_p=st.sampled_from([0.01, 0.3, 0.8, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    penalty=st.sampled_from([0.8, 1.0, 1.3]),
)
def test_probabilities_are_those_of_transformers(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float, penalty: float
) -> None:
    logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3
    seen = [3, 7, 7, 41]
    policy = GenerationPolicy(temperature, top_k, top_p, min_p, penalty)
    processors = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(penalty), TemperatureLogitsWarper(temperature)])
    if top_k:
        processors.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        processors.append(TopPLogitsWarper(top_p))
    if min_p > 0:
        processors.append(MinPLogitsWarper(min_p))
    expected = processors(torch.tensor([seen]), logits[None].clone())[0].softmax(-1)

    penalize_repetition(logits, SeenTokens().follow(seen), penalty)
    logits = logits / temperature
    kept = logits >= lowest_kept(logits, policy.top_k, policy.top_p, policy.min_p)
    found = logits.masked_fill(~kept, -torch.inf).softmax(-1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@given(st.lists(st.integers(0, 300), max_size=400), st.lists(st.integers(0, 400), max_size=12))
def test_seen_tokens_are_those_of_the_text(token_ids: list[int], lengths: list[int]) -> None:
    seen = SeenTokens()
    for length in lengths:
        found = seen.follow(token_ids[:length]).tolist()
        assert len(found) == len(set(found))
        assert set(found) == set(token_ids[:length])


def test_choices_follow_the_probabilities() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    sampler = Sampler(GenerationPolicy(1.0, 0, 1.0, 0.0, 1.0, seed=1))
    draws = torch.bincount(torch.tensor([sampler.choose(logits, []) for _ in range(4000)]), minlength=4)
    # Four standard deviations of a binomial with 4,000 draws are at most 0.032.
    torch.testing.assert_close(draws / 4000, logits.exp(), rtol=0, atol=0.032)


def test_temperature_zero_takes_the_most_likely_token() -> None:
    sampler = Sampler(GenerationPolicy(temperature=0.0, repetition_penalty=1.0))
    assert sampler.choose(torch.tensor([0.0, 5.0, 4.9]), []) == 1
    penalized = Sampler(GenerationPolicy(temperature=0.0, repetition_penalty=1.5))
    assert penalized.choose(torch.tensor([0.0, 5.0, 4.9]), [1]) == 2


def test_a_seed_repeats_and_a_drawn_seed_is_kept() -> None:
    logits = torch.randn(VOCABULARY)
    drawn = Sampler(GenerationPolicy(temperature=2.0))
    again = Sampler(GenerationPolicy(temperature=2.0, seed=drawn.seed))
    assert [drawn.choose(logits, []) for _ in range(20)] == [again.choose(logits, []) for _ in range(20)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", 2.0),
        ("repetition_penalty", 0.0),
        ("max_tokens", 0),
        ("seed", -1),
        ("stop", ("",)),
    ],
)
def test_a_policy_out_of_range_names_its_field(field: str, value: object) -> None:
    with pytest.raises(PolicyError, match=field):
        GenerationPolicy(**{field: value})  # type: ignore[arg-type]
