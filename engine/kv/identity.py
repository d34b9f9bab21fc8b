"""What stands before the first page of every sequence: all that decides a page's bytes, other than token ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict

from octavo.engine.attention.plan import ReadingPlan
from octavo.engine.config import EngineConfig
from octavo.engine.kv.pages import Identity
from octavo.engine.model.spec import ModelSpec

LAYOUT_VERSION = 3
"""Grows with every change of how the same settings become bytes."""


def root(
    spec: ModelSpec, config: EngineConfig, plan: ReadingPlan, fingerprint: str
) -> tuple[Identity, Mapping[str, object]]:
    """The identity that chains begin at, and the settings it is the SHA-256 of.

    A change of either, and be it the name of a field, makes every page that was kept before unfindable.
    """
    settings = {
        "layout": LAYOUT_VERSION,
        "fingerprint": fingerprint,
        "rope": asdict(spec.rope),
        "codec": config.kv_codec,
        "page_size": config.page_size,
        "prefill": config.compute_dtype,
        "attention": asdict(plan) if plan.is_sparse else "dense",
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).digest(), settings
