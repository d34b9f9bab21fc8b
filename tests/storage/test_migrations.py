"""Steps commit with their record or not at all; what a newer version made is left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from octavo.storage import migrations
from octavo.storage.conversations import Conversations
from octavo.storage.database import DatabaseBusyError, open_database
from octavo.storage.errors import StorageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of this version with one conversation in it."""
    path = tmp_path / "octavo.db"
    with open_database(path) as database:
        Conversations(database).create("From before")
    return path


def add_step(monkeypatch: pytest.MonkeyPatch, name: str, *statements: str, failure: Exception | None = None) -> None:
    def step(connection: Any) -> None:
        for statement in statements:
            connection.execute(statement)
        if failure is not None:
            raise failure

    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, (name, step)))


def on_disk(path: Path) -> tuple[list[str], list[str]]:
    """Names of the steps on record, and of the tables, as plain SQLite sees them."""
    connection = sqlite3.connect(path)
    try:
        steps = connection.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = 'octavo' ORDER BY id")
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%fts%'")
        return [row[0] for row in steps], sorted(row[0] for row in tables)
    finally:
        connection.close()


def test_new_database_has_every_step_on_record(path: Path) -> None:
    steps, tables = on_disk(path)

    assert steps == [name for name, _ in migrations.STEPS]
    assert {"conversations", "messages"} < set(tables)


def test_older_database_is_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_step(monkeypatch, "0002_notes", "CREATE TABLE notes (text)")
    add_step(monkeypatch, "0003_more", "ALTER TABLE notes ADD COLUMN more")

    with open_database(path) as database:
        assert [found.title for found in Conversations(database).list()] == ["From before"]

    steps, tables = on_disk(path)
    assert steps[-2:] == ["0002_notes", "0003_more"]
    assert "notes" in tables


@pytest.mark.parametrize("failure", [RuntimeError("power"), sqlite3.OperationalError("disk I/O error")])
def test_failed_step_leaves_the_version_before_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    before = on_disk(path)
    with monkeypatch.context() as newer:
        add_step(
            newer,
            "0002_notes",
            "CREATE TABLE notes (text)",
            "ALTER TABLE conversations RENAME COLUMN title TO name",
            "DELETE FROM conversations",
            failure=failure,
        )
        with pytest.raises((RuntimeError, StorageError), match=str(failure)):
            open_database(path)

    assert on_disk(path) == before
    with open_database(path) as database:
        assert [found.title for found in Conversations(database).list()] == ["From before"]


def test_steps_before_the_failed_one_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_step(monkeypatch, "0002_notes", "CREATE TABLE notes (text)")
    with monkeypatch.context() as newer:
        add_step(newer, "0003_more", "CREATE TABLE more (text)", failure=RuntimeError("power"))
        with pytest.raises(RuntimeError):
            open_database(path)

    steps, tables = on_disk(path)
    assert steps[-1] == "0002_notes"
    assert "notes" in tables
    assert "more" not in tables


@pytest.mark.parametrize("write", [True, False])
def test_newer_database_is_refused_and_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch, write: bool) -> None:
    with monkeypatch.context() as newer:
        add_step(newer, "0002_from_the_future", "ALTER TABLE conversations ADD COLUMN mood")
        open_database(path).close()
    before = path.read_bytes()

    with pytest.raises(StorageError, match=r"newer Octavo .*0002_from_the_future.*update Octavo"):
        open_database(path, write=write)

    assert path.read_bytes() == before


def test_reader_of_an_older_database_migrates_it_if_nobody_writes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_database(path):
        add_step(monkeypatch, "0002_notes", "CREATE TABLE notes (text)")
        with pytest.raises(DatabaseBusyError):
            open_database(path, write=False)

    with open_database(path, write=False) as reader:
        assert not reader.writable
        assert len(Conversations(reader).list()) == 1
    assert on_disk(path)[0][-1] == "0002_notes"


def test_a_name_is_never_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    migrations.migrations()
    add_step(monkeypatch, migrations.STEPS[0][0], "CREATE TABLE notes (text)")

    with pytest.raises(ValueError, match="already registered"):
        migrations.migrations()
