"""A writer killed at any moment leaves a store that is whole: 50 kills, each checked by a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# Runs in a process without other threads, which forks the writers: starting 50 interpreters would take too long.
PROGRAM = r'''
import hashlib, json, os, random, signal, sys, time
from dataclasses import dataclass
from pathlib import Path
from octavo.storage.pages import open_store

CAP, BATCH, LAYERS, RECORD = 4 << 20, 6, 2, 100
ROOT = hashlib.sha256(b"model").digest()

@dataclass
class Page:
    identity: bytes
    parent: bytes
    token_ids: tuple
    owner: str
    data: bytes
    origin: str = "decode"

def batch(number):
    pages, parent = [], ROOT
    for place in range(BATCH):
        identity = hashlib.sha256(parent + number.to_bytes(8, "little")).digest()
        pages.append(Page(identity, parent, (number, place), f"owner {number}", (identity * 7)[:LAYERS * RECORD]))
        parent = identity
    return pages

def open_both(folder):
    store = open_store(folder, CAP)
    return store, store.open_space(ROOT, {"codec": "bf16"}, LAYERS, RECORD, 2)

def write_until_killed(folder, first, told):
    store, space = open_both(folder)
    os.write(told, b"o 0\n")
    for number in range(first, first + 10**6):
        assert space.write(batch(number)) == [None] * BATCH
        os.write(told, b"w %d\n" % number)
        if number % 4 == 3:
            os.write(told, b"b %d\n" % (number - 2))
            store.forget(f"owner {number - 2}")
            os.write(told, b"f %d\n" % (number - 2))
        if number % 16 == 9:
            store.compact()

def kill_one(folder, first, steps, delay):
    """What a writer said before it was killed: (kind, number) in order."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_until_killed(folder, first, writing)
        finally:
            os._exit(1)
    os.close(writing)
    said = b""
    while said.count(b"\n") <= steps:
        said += os.read(reading, 1)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    while part := os.read(reading, 65536):
        said += part
    os.close(reading)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer failed by itself"
    return [(line[:1], int(line[1:])) for line in said.decode().splitlines()]

def check(folder, forgotten, undecided, written):
    store, space = open_both(folder)
    report = store.verify()
    assert report.is_clean, report.problems
    for number in written:
        pages = batch(number)
        found = space.find([page.identity for page in pages])
        if number in forgotten:
            assert found == [None] * BATCH, f"batch {number} was forgotten"
        outs = [bytearray(LAYERS * RECORD) for _ in pages]
        here = [(page, got, out) for page, got, out in zip(pages, found, outs) if got]
        assert space.read([(got, 0, LAYERS, memoryview(out)) for _, got, out in here]) == [None] * len(here)
        assert all(bytes(out) == page.data and got.token_ids == page.token_ids for page, got, out in here)
    time.sleep(0.002)  # so that these were used last, and are not evicted before they are looked for again
    recent = [number for number in written[-8:] if number not in forgotten | undecided]
    for number in recent:
        assert None not in space.find([page.identity for page in batch(number)]), f"batch {number} was kept"
    store.close()
    return report.num_pages

def main(folder, kills, seed):
    rng, first, forgotten, undecided, written, pages = random.Random(seed), 0, set(), set(), [], 0
    for kill in range(kills):
        said = kill_one(folder, first, rng.randrange(6), rng.uniform(0, 0.015))
        written += [number for kind, number in said if kind == "w"]
        forgotten |= {number for kind, number in said if kind == "f"}
        undecided |= {number for kind, number in said if kind == "b"}
        if kill % 7 == 6:
            for path in folder.glob("index.db*"):
                path.unlink()
        pages = max(pages, check(folder, forgotten, undecided, written[-24:]))
        first = written[-1] + 5 if written else 0
    print(json.dumps({"written": len(written), "forgotten": len(forgotten), "most_pages": pages}))

main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
'''


def test_fifty_kills_leave_a_store_that_is_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "pages"), "50", "23"]

    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert result.returncode == 0, result.stderr
    totals = json.loads(result.stdout)
    assert totals["written"] > 50
    assert totals["forgotten"] > 3
    assert totals["most_pages"] > 50
