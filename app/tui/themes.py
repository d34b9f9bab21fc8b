"""Octavo's own colours; all of Textual's themes can be chosen beside them."""

from __future__ import annotations

from textual.theme import Theme

OCTAVO_DARK = Theme(
    name="octavo-dark",
    primary="#7aa2f7",
    secondary="#9d8cf0",
    accent="#e0af68",
    foreground="#d5d9e6",
    background="#14161c",
    surface="#191c24",
    panel="#20242e",
    success="#8fce7a",
    warning="#e0af68",
    error="#f7768e",
    dark=True,
)

OCTAVO_LIGHT = Theme(
    name="octavo-light",
    primary="#2f5fc4",
    secondary="#6b4fc0",
    accent="#9a6700",
    foreground="#22252d",
    background="#fbfbf9",
    surface="#f2f2ee",
    panel="#e7e7e2",
    success="#2e7d32",
    warning="#9a6700",
    error="#b3261e",
    dark=False,
)
