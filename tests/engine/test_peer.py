"""Measuring beside another engine: the process, the comparison of logits, and models of random weights."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from octavo.engine import peer as peers
from octavo.engine.config import EngineConfig, GenerationPolicy
from octavo.engine.engine import Engine, load
from octavo.engine.errors import EngineError
from octavo.engine.events import DoneEvent
from octavo.engine.peer import Peer
from octavo.engine.teacher import TOLERANCE, compare, forced_logits
from octavo.engine.weights.formats import Format
from octavo.engine.weights.random_weights import RANDOM_MODELS, random_checkpoint, random_spec


def test_transformers_is_a_peer_and_finds_the_same_tokens_likely(make_hf_folder) -> None:  # type: ignore[no-untyped-def]
    folder = make_hf_folder("llama")
    engine = load(folder, EngineConfig(context=256, compute_dtype="float32"), quantization="none")
    text = torch.randint(engine.spec.vocab_size, (80,), generator=torch.Generator().manual_seed(0)).tolist()

    other = Peer("transformers", "float32", folder, 256, 1)
    try:
        run = other.run(text, 3)
        theirs = other.logits(text, 64)
        assert other.instruction_sets.startswith("torch ")
        assert other.memory() > 0
    finally:
        other.close()
    ours = forced_logits(engine, text, 64)

    assert run.prefill_s > 0 < run.decode_s
    assert ours.shape == theirs.shape == (16, engine.spec.vocab_size)
    np.testing.assert_allclose(ours, theirs, atol=0.02)  # K and V are kept in bfloat16 here
    assert np.array_equal(forced_logits(engine, text, 64), ours), "the pages were given back, and found again"
    engine.cache.check_conservation()


def test_a_peer_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "absent_peer.py"
    script.write_text(
        "from octavo.engine.peer import serve\ndef load(**_):\n    import no_such_engine\nserve({'load': load})\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setitem(peers.MODULES, "llama.cpp", ("absent_peer", "llama-cpp-python"))
    with pytest.raises(EngineError, match=r"no_such_engine.*; pip install llama-cpp-python\."):
        Peer("llama.cpp", "flash attention", tmp_path, 64, 1)


def test_a_peer_that_dies_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(peers.MODULES, "llama.cpp", ("this", "llama-cpp-python"))  # prints, and ends
    with pytest.raises((EngineError, json.JSONDecodeError)):
        Peer("llama.cpp", "flash attention", tmp_path, 64, 1)


def test_what_libraries_print_does_not_come_between() -> None:
    code = "from octavo.engine.peer import serve\nserve({'noise': lambda: [print('noise'), {'said': 1}][1]})"
    result = subprocess.run(
        [sys.executable, "-c", code], input='{"op": "noise"}\n', capture_output=True, text=True, check=True
    )
    assert (json.loads(result.stdout), result.stderr) == ({"said": 1}, "noise\n")


def test_only_decisive_positions_must_agree() -> None:
    ours = np.array([[0, 5, 1], [0, 0.4, 0.5], [3, 0, 0]], dtype=np.float32)
    theirs = np.array([[0, 4, 1], [0, 0.5, 0.4], [2.5, 0, 0]], dtype=np.float32)
    found = compare(ours, theirs)
    assert (found.positions, found.agreeing, found.decisive, found.decisive_agreeing) == (3, 2, 2, 2)
    assert found.is_sound
    assert found.max_difference == TOLERANCE
    assert not compare(ours, theirs[:, ::-1]).is_sound
    assert not compare(ours[1:2], theirs[1:2]).is_sound, "nothing decisive proves nothing"


def test_random_weights_run() -> None:
    checkpoint = random_checkpoint("135m")
    assert {matrix.format_name for matrix in checkpoint.matrices.values()} == {"Q4_1", "Q4_K", "Q8_0"}
    engine = Engine(checkpoint, EngineConfig(context=64, max_sequences=1), fingerprint="random")
    (*_, done) = engine.generate([1, 2, 3], GenerationPolicy(max_tokens=2))
    assert isinstance(done, DoneEvent)
    assert done.finish_reason == "length"
    assert engine.token_weight_bytes == checkpoint.nbytes, "the embedding is the head"


@pytest.mark.parametrize("name", RANDOM_MODELS)
def test_random_models_have_sound_shapes(name: str) -> None:
    spec = random_spec(name)
    assert spec.num_heads % spec.num_kv_heads == 0
    for width in (spec.hidden_size, spec.intermediate_size):
        assert width % Format.Q4_1.block_size == 0
