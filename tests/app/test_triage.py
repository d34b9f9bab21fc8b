"""The triage: seven steps with figures that agree with the planner's, with and without a running model."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from click.testing import CliRunner

from octavo.app.assistant.snapshot import Limits, Snapshot
from octavo.app.cli.main import cli
from octavo.app.models.planned import PlannedModel
from octavo.app.settings import Settings
from octavo.app.triage import Case, as_json, as_text, examine_memory
from octavo.engine.gauge import EngineFigures, Held
from octavo.engine.kv.residency import TierCounters
from octavo.engine.planner import PlainSizes, kv_bytes
from octavo.storage.records import StoredMessage

SIZES = PlainSizes(
    num_layers=30, hidden_size=576, num_heads=9, num_kv_heads=3, head_dim=64, intermediate_size=1536, vocab_size=49152
)
MODEL = PlannedModel("tiny", SIZES, 98_000_000, 8192, None)
MB = 10**6
ENGINE = EngineFigures(
    device="cpu", weights=98 * MB, slots=Held(40 * MB, 60 * MB, 300 * MB), tails=Held(MB, 0, 16 * MB), passing=2 * MB,
    bounds=0, state=MB, rows=Held(20 * MB, 5 * MB, 50 * MB), unwritten=0, most_occupied=150 * MB,
    counters=TierCounters(evicted_from_device=60, written=7), num_layers=30, page_bytes=32 * 23_040, page_size=32,
    context=8192, num_running=1, num_waiting=2,
)  # fmt: skip


def answer(conversation_id, tokens):
    record = {"usage": {"prompt_tokens": tokens, "generated_tokens": 10}, "timings": {"prefill_s": 1.0, "e2e_s": 4.0}}
    return StoredMessage("m", conversation_id, None, "assistant", "x", "complete", "", (), "tiny", record)


def test_steps_come_in_order_with_figures_of_this_machine():
    answers = [answer("long", 4000), answer("short", 90), answer("long", 10)]
    case = Case(Settings(kv_codec="bf16"), MODEL, "cpu", answers)
    steps = examine_memory(case)
    assert [step.title.split(",")[0] for step in steps] == [
        "Tokens of each conversation", "The KV cache", "Weights", "Queue and evictions", "Reserved output",
        "Prefill or decode", "What to lower first",
    ]  # fmt: skip
    assert "Conversation long has 4,010 tokens (49%)" in steps[0].findings[1]
    named = examine_memory(replace(case, answers=[answer("long", 9000)], titles={"long": "Where is the [lake]?\n\x1b"}))
    assert named[0].findings[1].startswith("“Where is the [lake]? ␛” (long) has 9,010 tokens (110%)")
    assert named[0].findings[1].endswith("more than this context: its oldest turns are left out of prompts.")
    assert "= 23,040 bytes a token in bf16; bf16 stores 23,040" in steps[1].findings[0]
    assert "1,024 of 8,192 tokens are kept for the answer" in steps[4].findings[0]
    parts = re.findall(r"^[\d,]+|(?<=and )\d+|(?<=other )[\d,]+", steps[4].findings[0])
    assert sum(int(part.replace(",", "")) for part in parts) == 8192, "they add up"
    assert "25% was prefill" in steps[5].findings[1]
    saved = (kv_bytes(SIZES, 8192) - kv_bytes(SIZES, 8192, "k8v8")) / 1e6
    assert f'"k8v8" saves {saved:.1f} MB' in steps[6].findings[0]
    assert json.loads(json.dumps(as_json(steps)))[0]["title"] == steps[0].title


def test_what_a_running_model_holds_is_measured():
    snapshot = Snapshot("tiny", ENGINE, Limits(0, 0, 0, 0), None)
    text = as_text(examine_memory(Case(Settings(), MODEL, "cpu", [], snapshot)))
    assert "Measured: 40.0 MB in use and 60.0 MB cached of 300 MB" in text
    assert "1 request being answered, 2 waiting." in text
    assert "2 pages left the device so far" in text


def test_weights_are_told_by_format(tmp_path, tiny_gguf):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_gguf())
    steps = examine_memory(Case(Settings(), replace(MODEL, path=path), "cpu", []))
    assert any("F32" in finding and "32.00 bits each (not quantized)" in finding for finding in steps[2].findings)


def test_the_doctor_prints_it_with_the_model_measured(octavo_home, tmp_path, tiny_gguf):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_gguf())
    result = CliRunner(env={"OCTAVO_MODEL": str(path)}).invoke(cli, ["doctor", "--memory"])
    assert result.exit_code == 0, result.output
    assert "7. What to lower first" in result.output
    assert "Measured: 0 B in use" in result.output
    document = json.loads(
        CliRunner(env={"OCTAVO_MODEL": str(path)}).invoke(cli, ["doctor", "--memory", "--json"]).output
    )
    assert len(document) == 7
