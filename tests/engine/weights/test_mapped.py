"""Memory maps: private, and not limited by the machine's memory."""

import os
import sys
from pathlib import Path

import pytest

from octavo.engine.weights.mapped import map_file


def test_a_write_to_the_map_does_not_reach_the_file(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"weights")
    with map_file(path) as mapped:
        mapped[0] = 0
    assert path.read_bytes() == b"weights"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_file_larger_than_memory_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    size = 4 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    os.truncate(path, size)
    with map_file(path) as mapped:
        assert len(mapped) == size
