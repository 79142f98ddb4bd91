"""Iter-RetGen (Shao et al. 2305.15294): retrieve with the last answer, write the answer again.

Knows when an answer is the last. A stretch is a whole answer; the one before it is what the core drafts from.
"""

from __future__ import annotations

from collections.abc import Sequence

from .generator import Generator
from .row import Row


class IterRetGen(Generator):
    """Writes `config.iterations` answers, each after the document that prompt and last answer ask for.

    A document that comes again would bring the same answer, and that the same document: the text ends there.
    """

    is_revising = True

    def query(self, row: Row) -> str:
        """The end of the prompt and the whole of the last answer."""
        return self._decode(row.prompt[-self.config.query_tokens :] + row.written)

    def write(self, rows: Sequence[Row]) -> None:
        going = []
        for row in rows:
            assert row.is_chosen, "an answer needs a document, or the choice of none"
            row.is_chosen = False
            if row.trail[-2:-1] == row.trail[-1:]:
                row.finish_reason = self._ending(row)
            else:
                going.append(row)
        before = [row.written for row in going]
        for row in going:
            row.written = []
        requests = [
            self._request(row, row.max_tokens, stop=row.params.stop, prediction=last)
            for row, last in zip(going, before, strict=True)
        ]
        for row, done in zip(going, self.engine.generate(requests), strict=True):
            row.num_generated += len(done.token_ids)
            self._append(row, done.token_ids)
            if len(row.trail) < self.config.iterations:
                row.finish_reason = None
