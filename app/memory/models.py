"""The NLI model of the memory: which one is used, how far it is believed, and its verdicts, so that no pair is read
twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.app.errors import AppError
from octavo.app.memory.check import Scores

if TYPE_CHECKING:
    from octavo.app.memory.calibration import Calibration
    from octavo.engine.nli import CrossEncoder
    from octavo.storage.database import Database
    from octavo.storage.paths import Paths

FOLDER = "nli"  # below the models; what is fetched is put there, and used from then on
OFF = "off"
_MULTILINGUAL = 200_000  # pieces in the vocabulary of mDeBERTa and its like; the English models have 128,100
_AT_ONCE = 8  # pairs between two pauses, each read in both directions


def find_judge(
    given: str | None, paths: Paths, database: Database, *, pause: Callable[[], None] = lambda: None
) -> FolderJudge | None:
    """The model in the folder `given`, or the one that was fetched; None for "off", or where there is none. `pause` is
    called between batches, and returns when it may go on.

    Raises AppError if the folder is not there, and ModelFileError if it holds no model that can be used.
    """
    if given == OFF:
        return None
    folder = Path(given).expanduser() if given is not None else paths.models_dir / FOLDER
    if not folder.is_dir():
        if given is None:
            return None
        raise AppError(f"There is no folder {folder}; --nli takes a folder with config.json and model.safetensors.")
    return FolderJudge(folder, database, pause=pause)


class FolderJudge:
    """A cross-encoder in a folder, loaded when the first pair is read. Verdicts are kept in the database."""

    def __init__(self, folder: Path, database: Database, *, pause: Callable[[], None] = lambda: None) -> None:
        self._folder = folder
        self._database = database
        self._pause = pause
        self._encoder: CrossEncoder | None = None
        self._calibration: Calibration | None = None
        self._vocabulary: int | None = None

    @property
    def name(self) -> str:
        given = self._folder / "name.txt"  # where it was fetched from
        return given.read_text(encoding="utf-8").strip() if given.is_file() else self._folder.name

    @property
    def threshold(self) -> float:
        return self.calibration.threshold

    @property
    def calibration(self) -> Calibration:
        """How far the model is believed: as kept beside it, or measured now. Raises as `scores`."""
        from octavo.app.memory.calibration import calibrate, read_calibration, write_calibration

        if self._calibration is None:
            encoder = self._open()
            self._calibration = read_calibration(self._folder, encoder.fingerprint)
            if self._calibration is None:
                self._calibration = calibrate(self, encoder.fingerprint)
                write_calibration(self._folder, self._calibration)
        return self._calibration

    def reads(self, text: str) -> bool:
        """True for English, and for everything where the model has the vocabulary of many languages."""
        from octavo.app.memory.clauses import language_of
        from octavo.engine.tokenizer.data import read_json

        if self._vocabulary is None:
            self._vocabulary = int(read_json(self._folder / "config.json", optional=True).get("vocab_size") or 0)
        return self._vocabulary >= _MULTILINGUAL or language_of(text) == "en"

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[Scores]:
        """Scores of (old, new) pairs, each read in both directions. Raises ModelFileError if the model is refused."""
        from octavo.app.memory.pair_cache import PairCache

        encoder = self._open()
        cache = PairCache(self._database, encoder.fingerprint, encoder.template)
        known = {pair: cache.get(*pair) for pair in dict.fromkeys(pairs)}
        missing = [pair for pair, score in known.items() if score is None]
        for start in range(0, len(missing), _AT_ONCE):
            self._pause()
            batch = missing[start : start + _AT_ONCE]
            read = encoder.read([*batch, *((new, old) for old, new in batch)])
            for i, pair in enumerate(batch):
                there, back = read[i], read[i + len(batch)]
                found = Scores(max(there.contradiction, back.contradiction), min(there.entailment, back.entailment))
                known[pair] = found
                cache.put(*pair, found)
        return [score for pair in pairs if (score := known[pair]) is not None]

    def _open(self) -> CrossEncoder:
        from octavo.engine.nli import open_cross_encoder

        if self._encoder is None:
            self._encoder = open_cross_encoder(self._folder)
        return self._encoder
