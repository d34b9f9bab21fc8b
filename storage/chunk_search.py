"""Chunks by their words, best first (BM25), in time that does not depend on how common the words are.

FTS5 scores every row that matches, and a common word matches most of a large library. So in a large one the rare
words choose the candidates, and the common ones only order them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from octavo.storage.words import query_terms, words_of

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

Range = tuple[int, int]  # first and last number of the chunks of one document, both included

_SMALL = 20_000  # chunks up to which every match is scored
_MOST_RANGES = 400
_RARE = 2_000  # rows up to which a word is rare
_WEIGHTS = "1.0, 0.5"  # of a chunk's text, and of its headings and table header


@dataclass(frozen=True, slots=True)
class WordHit:
    """A chunk and its score; higher is better."""

    chunk: int
    score: float


def search_words(connection: Connection, query: str, ranges: Sequence[Range], limit: int) -> list[WordHit]:
    """Up to `limit` chunks of `ranges` that hold any word of `query`; no ranges is everywhere."""
    terms = query_terms(query)
    if not terms:
        return []
    if _num_chunks(connection, ranges) <= _SMALL:
        return _scored(connection, " OR ".join(terms), ranges, limit)
    counts = {term: count_rows(connection, term, ranges, _RARE + 1) for term in terms}
    rare = [term for term in terms if 0 < counts[term] <= _RARE]
    common = [term for term in terms if counts[term] > _RARE]
    if not rare:
        return _all_common(connection, common, ranges, limit)
    hits = _scored(connection, " OR ".join(rare), ranges, 4 * limit)
    return _with_common(connection, hits, common, limit)


def count_rows(connection: Connection, term: str, ranges: Sequence[Range], most: int) -> int:
    """How many chunks hold the term, counted up to `most`."""
    condition, values = _within(ranges)
    row = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? {condition} LIMIT ?)",  # noqa: S608
        [term, *values, most],
    ).fetchone()
    return int(row[0])


def rarity(connection: Connection, term: str, ranges: Sequence[Range], total: int) -> float:
    """ln(1 + total / (1 + chunks that hold the term)); a term that no chunk holds tells most."""
    phrases = query_terms(term)
    held = count_rows(connection, " AND ".join(phrases), ranges, _RARE) if phrases else 0
    return math.log(1 + total / (1 + held))


def _num_chunks(connection: Connection, ranges: Sequence[Range]) -> int:
    if ranges:
        return sum(last - first + 1 for first, last in ranges)
    row = connection.execute("SELECT coalesce(sum(num_chunks), 0) FROM documents").fetchone()
    return int(row[0])


def _scored(connection: Connection, expression: str, ranges: Sequence[Range], limit: int) -> list[WordHit]:
    condition, values = _within(ranges)
    rows = connection.execute(
        f"SELECT rowid, bm25(chunks_fts, {_WEIGHTS}) AS score FROM chunks_fts WHERE chunks_fts MATCH ? {condition} "  # noqa: S608
        "ORDER BY score LIMIT ?",
        [expression, *values, limit],
    ).fetchall()
    return [WordHit(seq, -score) for seq, score in rows]


def _with_common(connection: Connection, hits: list[WordHit], common: Sequence[str], limit: int) -> list[WordHit]:
    """The hits again, each common word in a chunk adding what a word is worth that is just not rare."""
    if not common or not hits:
        return hits[:limit]
    wanted = [frozenset(term.strip('"*').split()) for term in common]
    total = connection.execute("SELECT coalesce(sum(num_chunks), 0) FROM documents").fetchone()[0]
    worth = max(math.log(max(total, 1) / _RARE) / 2, 0.1)
    texts = dict(_texts(connection, [hit.chunk for hit in hits]))
    again = [
        WordHit(hit.chunk, hit.score + worth * sum(words <= words_of(texts[hit.chunk]) for words in wanted))
        for hit in hits
    ]
    return sorted(again, key=lambda hit: -hit.score)[:limit]


def _texts(connection: Connection, chunks: Sequence[int]) -> list[tuple[int, str]]:
    marks = ",".join("?" * len(chunks))
    rows = connection.execute(f"SELECT seq, text FROM chunks WHERE seq IN ({marks})", list(chunks))  # noqa: S608
    return rows.fetchall()


def _all_common(connection: Connection, common: Sequence[str], ranges: Sequence[Range], limit: int) -> list[WordHit]:
    """Where no word is rare: among the first chunks that hold all of them, or else any, those that score best."""
    condition, values = _within(ranges)
    for joined in (" AND ".join(common), " OR ".join(common)):
        if not joined:
            break
        rows = connection.execute(
            f"SELECT rowid, bm25(chunks_fts, {_WEIGHTS}) FROM chunks_fts "  # noqa: S608
            f"WHERE chunks_fts MATCH ? {condition} LIMIT ?",
            [joined, *values, _RARE],
        ).fetchall()
        if rows:
            best = sorted(rows, key=lambda row: row[1])[:limit]
            return [WordHit(seq, -score) for seq, score in best]
    return []


def _within(ranges: Sequence[Range]) -> tuple[str, list[int]]:
    """A condition that keeps to the ranges, and its values."""
    if not ranges:
        return "", []
    ranges = _joined(ranges)
    low, high = ranges[0][0], ranges[-1][1]
    # SQLite allows no deeper expression; past it the caller sorts out what belongs to other documents.
    if len(ranges) == 1 or len(ranges) > _MOST_RANGES:
        return "AND rowid BETWEEN ? AND ?", [low, high]
    inner = " OR ".join(["rowid BETWEEN ? AND ?"] * len(ranges))
    return f"AND rowid BETWEEN ? AND ? AND ({inner})", [low, high, *(edge for pair in ranges for edge in pair)]


def _joined(ranges: Sequence[Range]) -> list[Range]:
    """The ranges in order, those that follow one another made into one: a folder's documents often do."""
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined
