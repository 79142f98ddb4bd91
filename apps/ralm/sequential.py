"""Plain retrieval while writing: ask, write a stretch, ask again. What speculation is compared with.

Well made in itself: where the document stays, the engine's cache holds it, and only new tokens are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .generator import Generator
from .retrievers import Retriever
from .row import Row
from .stats import RetrievalStats


def write_sequentially(
    rows: Sequence[Row], generator: Generator, retriever: Retriever, stats: RetrievalStats
) -> Iterator[None]:
    """Write all rows to their ends; one yield for every stretch. One call of the retriever asks for all rows."""
    while live := [row for row in rows if row.finish_reason is None]:
        with stats.phase("encode"):
            queries = retriever.encode([generator.query(row) for row in live])
        with stats.phase("search"):
            answers = retriever.search(queries, 1)
        for row, names in zip(live, answers, strict=True):
            row.choose(names[0] if names else None)
            row.documents.append((len(row.written), row.document))
        with stats.phase("write"):
            generator.write(live)
        stats.calls += 1
        stats.queries += len(queries)
        stats.retrievals += len(live)
        stats.steps += len(live)
        yield
