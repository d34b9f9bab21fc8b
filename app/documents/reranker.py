"""A cross-encoder that reads question and passage together and orders the passages, out of a folder of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.engine.encoders import CrossEncoder


def open_reranker(folder: str) -> CrossEncoder:
    """The model in a folder. Raises AppError if it is not there or gives no single score, and the engine's errors."""
    from octavo.engine.encoders import CrossEncoder

    path = Path(folder).expanduser()
    if not path.is_dir():
        raise AppError(
            f"There is no folder {path}; the setting reranker names one with config.json, tokenizer.json and "
            "model.safetensors."
        )
    encoder = CrossEncoder(path)
    if len(encoder.labels) != 1:
        raise AppError(f"{path} gives {len(encoder.labels)} scores for a pair; a reranker gives one.")
    return encoder
