"""The parts of the screen that need no screen: clipboard sequences, pastes, memory of choices, commands, texts."""

from __future__ import annotations

import base64
import gc
import json

import pytest

from octavo.app.tui import commands
from octavo.app.tui.clipboard import osc52
from octavo.app.tui.collector import spare_the_screen
from octavo.app.tui.pastes import Pastes
from octavo.app.tui.screens.answering import joined
from octavo.app.tui.state import InputHistory, Preferences
from octavo.app.tui.text import one_line, visible


def test_osc52_carries_the_text():
    sequence = osc52("grüße", {})
    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\x07")
    assert base64.b64decode(sequence[7:-1]).decode() == "grüße"


def test_osc52_is_wrapped_inside_tmux():
    plain = osc52("a", {})
    assert osc52("a", {"TMUX": "/tmp/tmux"}) == plain + "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def test_a_large_paste_becomes_a_chip_that_expands():
    pastes = Pastes()
    text = "line\r\n" * 3_412
    chip = pastes.take(text)
    assert chip == "[Pasted #1, 3,412 lines]"
    assert (
        pastes.expand(f"See {chip} and [Pasted #7, 2 lines].")
        == "See " + "line\n" * 3_412 + " and [Pasted #7, 2 lines]."
    )
    assert pastes.take("x" * 5_000) == "[Pasted #2, 5,000 characters]"


def test_the_collector_looks_more_rarely_and_not_at_what_was_there(monkeypatch):
    calls = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "set_threshold", lambda *thresholds: calls.append(thresholds))
    spare_the_screen()
    assert "freeze" in calls
    assert calls[0][0] >= 10_000


def test_a_small_paste_stays_as_it_is():
    assert Pastes().take("two\r\nlines") == "two\nlines"


def test_preferences_outlive_a_damaged_file(tmp_path):
    file = tmp_path / "state" / "screen.json"
    Preferences(theme="nord", sidebar=False).save(file)
    assert Preferences.load(file) == Preferences("nord", sidebar=False)
    assert file.stat().st_mode & 0o777 == 0o600
    for damage in ("{", "[]", json.dumps({"theme": 3, "sidebar": "yes"})):
        file.write_text(damage)
        assert Preferences.load(file) == Preferences()


def test_history_goes_back_and_forth_and_is_kept(tmp_path):
    file = tmp_path / "inputs.jsonl"
    history = InputHistory(file)
    for text in ("one", "two\nlines", "two\nlines", "x" * 30_000):
        history.add(text)
    assert history.previous("draft") == "x" * 30_000
    assert history.previous("") == "two\nlines"
    assert history.previous("") == "one"
    assert history.previous("") is None
    assert [history.next(), history.next(), history.next(), history.next()] == [
        "two\nlines",
        "x" * 30_000,
        "draft",
        None,
    ]
    later = InputHistory(file)
    later.load()
    assert later.previous("") == "two\nlines"


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [("/help", "help", ""), ("/mod qwen 3", "model", "qwen 3"), ("/export notes.md", "export", "notes.md")],
)
def test_commands_are_understood(text, name, argument):
    command, found = commands.parse(text)
    assert (command.name, found) == (name, argument)


@pytest.mark.parametrize("text", ["/", "/zzz", "/re", "help", "/help\nme", "/etc/hosts is a file"])
def test_other_texts_are_not(text):
    assert commands.parse(text) is None


def test_a_path_is_no_command():
    assert not commands.is_command("/etc/hosts has what?")
    assert commands.is_command("/halp")


def test_control_characters_are_pictures_and_reordering_is_dropped():
    assert visible("a\x1b[31mb\x07\x00") == "a␛[31mb␇␀"
    assert visible("x\u202eevil\u202cy") == "xevily"
    assert visible("a\tb\r\nc\rd") == "a   b\nc\nd"
    assert one_line("a\nb  c" + "d" * 400, 10) == "a b cdddd…"


def test_neighbouring_texts_become_one():
    from octavo.app.assistant.chat import AnswerText

    events = [
        AnswerText("1", "a", 1),
        AnswerText("1", "b", 2),
        "other",
        AnswerText("1", "c", 3),
        AnswerText("2", "d", 1),
    ]
    assert [getattr(event, "text", event) for event in joined(events)] == ["ab", "other", "c", "d"]
