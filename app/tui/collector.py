"""The garbage collector, kept from stopping the screen.

A streamed answer makes and drops widgets by the thousand, each a knot of objects. With Python's own thresholds a pass
over everything, the imported libraries too, comes every few hundred milliseconds and stops the screen for 160.
"""

from __future__ import annotations

import gc

from textual._styles_cache import StylesCache

# Passes over the young, the middle-aged and all objects: after so many new ones, and so many passes of the kind before.
_THRESHOLDS = (10_000, 20, 50)


def spare_the_screen() -> None:
    """Take what is there now out of the collector's sight, and let it look at the rest more rarely.

    Who wants to get rid of something large that was there then, such as a model, calls `gc.unfreeze` first.
    """
    gc.set_threshold(*_THRESHOLDS)
    gc.freeze()


def forget_painted() -> None:
    """Let go of the lines that widgets painted which are gone.

    A memo of colours in Textual is kept by the painter that asks, and so keeps the last 1,024 painters with every line
    they hold, some kilobytes each (textual#6665).
    """
    StylesCache.get_inner_outer.cache_clear()
