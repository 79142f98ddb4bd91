"""In-context retrieval (Ram et al. 2302.00083): a new document every few tokens, asked for by the newest ones."""

from __future__ import annotations

from collections.abc import Sequence

from .generator import Generator
from .row import Row


class InContext(Generator):
    """Writes stretches of `config.stride` tokens."""

    def query(self, row: Row) -> str:
        return self.newest(row)

    def write(self, rows: Sequence[Row]) -> None:
        requests = [self._request(row, self.config.stride) for row in rows]
        for row, done in zip(rows, self.engine.generate(requests), strict=True):
            assert row.is_chosen, "a stretch needs a document, or the choice of none"
            row.is_chosen = False
            row.num_generated += len(done.token_ids)
            self._append(row, done.token_ids)
