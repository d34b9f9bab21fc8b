from pathlib import Path

import pytest

from octavo.app.errors import AppError
from octavo.app.needle.finished import FinishedRows

MADE_WITH = {"task": "single", "tokens": 4096}


def test_rows_are_found_again_by_what_they_were_made_with(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    FinishedRows(path).add(MADE_WITH, [{"found": 1}, {"found": 0}])
    FinishedRows(path).add(MADE_WITH | {"tokens": 8192}, [{"found": 7}])

    finished = FinishedRows(path)

    assert finished.find(dict(reversed(MADE_WITH.items()))) == [{"found": 1}, {"found": 0}]
    assert finished.find(MADE_WITH | {"tokens": 8192}) == [{"found": 7}]
    assert finished.find(MADE_WITH | {"seed": 1}) is None


def test_a_line_that_was_cut_short_is_measured_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    FinishedRows(path).add(MADE_WITH, [{"found": 1}])
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole + whole[:end])
        finished = FinishedRows(path)
        assert finished.find(MADE_WITH) == [{"found": 1}]
        finished.add({"task": "other"}, [])
        assert path.read_bytes().startswith(whole)
        assert FinishedRows(path).find({"task": "other"}) == []
        path.write_bytes(whole[:end])
        assert FinishedRows(path).find(MADE_WITH) is None


@pytest.mark.parametrize("content", [b"no rows", b"no rows\n", b"[]\n", b'{"made_with": {}}\n', b"\xff\n"])
def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)

    with pytest.raises(AppError, match=r"notes\.txt is not a file of needle rows"):
        FinishedRows(path)

    assert path.read_bytes() == content


def test_a_folder_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="cannot be read"):
        FinishedRows(tmp_path)
    with pytest.raises(AppError, match="cannot be written"):
        FinishedRows(tmp_path / "missing" / "rows.jsonl").add(MADE_WITH, [])
