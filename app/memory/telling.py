"""Checks and memories in words for a person, the same on the command line and on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.app.memory.check import Check

if TYPE_CHECKING:
    from octavo.storage.memory_records import Memory


def holding(memory: Memory) -> str:
    """When it holds, as "since 2026-05-01"; empty for what always does."""
    match memory.valid_from, memory.valid_to:
        case None, None:
            return ""
        case first, None:
            return f"since {first}"
        case None, last:
            return f"until {last}"
        case first, last:
            return f"from {first} until {last}"


def told(check: Check) -> list[str]:
    """The verdict with its reason, what it conflicts with, what the person is asked, and who checked."""
    lines = [f"{check.verdict}: {check.finding.reason}"]
    lines += [
        f"    {met.finding.verdict} with “{met.memory.text}” (said on {met.memory.said[:10]})"
        for met in check.with_verdict("tension", "contradiction", "update")
    ]
    if check.verdict == "tension":
        lines.append("    Both are kept until you decide.")
    elif check.finding.confirm:
        lines.append("    It is about health or safety: please make sure that it is right.")
    unread = f"; {check.num_unread} pairs were left unread, for want of a model that reads them"
    lines.append(f"    checked by {check.checked_by}{unread if check.num_unread else ''}")
    return lines
