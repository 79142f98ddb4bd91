"""A bonus for the token that copies the source next: precision against recall. Below 0 it is a price, for more edits.

Knows token ids and a pointer into the source; does not know words or the model. The pointer is a deterministic
automaton over the token path, so every path has one state however it was reached: plain decoding, a chain of drafts
and a branching tree all get the same bonus, and speculative decoding stays identical to plain decoding.

While the path copies the source, the source's next token (its end: the end token) gets `bonus` added to its logit:
leaving the source then costs that much, once. After a token that is not the expected one there is no bonus, since
nobody knows yet whether it replaced a token, came in addition, or skipped some; it returns when the path has
continued the source for one token from any place near by. Tokens that are `doubted` (of a misspelling, say) never get
one, but pay `DOUBT` for being copied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

    from core.types import DraftTree

DOUBT = -2.0
WINDOW = 6  # tokens that an edit may skip; more is a new passage, and the pointer waits


class Pointer(NamedTuple):
    """`at`: the source token expected next, `lost`: tokens since the last sure one (0: on the source),
    `maybe`: the source token expected next if the last token was a return to the source, or -1."""

    at: int = 0
    lost: int = 0
    maybe: int = -1

    def step(self, source: Sequence[int], token: int) -> Pointer:
        """The state after `token`."""
        if self.lost == 0:
            if self.at < len(source) and source[self.at] == token:
                return Pointer(self.at + 1)
            return self._search(source, token)
        if 0 <= self.maybe < len(source) and source[self.maybe] == token:
            return Pointer(self.maybe + 1)
        return self._search(source, token)

    def _search(self, source: Sequence[int], token: int) -> Pointer:
        """Leave the source, or stay off it; remember the nearest place where `token` would continue it."""
        lost = self.lost + 1
        for place in range(self.at, min(len(source), self.at + WINDOW + lost)):
            if source[place] == token:
                return Pointer(self.at, lost, place + 1)
        return Pointer(self.at, lost, -1)


@dataclass(eq=False)
class Caution:
    """A `LogitsTransform` that favours copying, or, with a bonus below 0, editing.

    `source_ids` are the decoder's tokens for the unchanged sentence, `end_ids` the tokens that may follow them
    at the end. The first `skip` tokens of the path (the prompt or the start token) are not part of the output.
    `doubted` are places in `source_ids` whose tokens are probably wrong.
    """

    source_ids: Sequence[int]
    end_ids: Sequence[int]
    bonus: float
    skip: int = 1
    doubted: Collection[int] = ()
    needs_hidden: bool = False

    def __post_init__(self) -> None:
        self._path: list[int] = []  # tokens behind `_states[1:]`
        self._states: list[Pointer] = [Pointer()]

    def apply(
        self, logits: torch.Tensor, prefix: Sequence[int], tree: DraftTree, hidden: torch.Tensor | None
    ) -> torch.Tensor:
        """Logits [1+N, V] with the bonus on the copied token of each row that is on the source."""
        import torch

        rows: list[int] = []
        ids: list[int] = []
        bonuses: list[float] = []
        for row, state in enumerate(self.states(prefix, tree)):
            for token in self.expected(state):
                rows.append(row)
                ids.append(token)
                bonuses.append(min(self.bonus, DOUBT) if state.at in self.doubted else self.bonus)
        if not rows:
            return logits
        index = torch.tensor([rows, ids]).to(logits.device)
        bonus = torch.tensor(bonuses, dtype=logits.dtype, device=logits.device)
        return logits.index_put((index[0], index[1]), bonus, accumulate=True)

    def expected(self, state: Pointer) -> Sequence[int]:
        """The tokens that copy the source from `state`; none while the path is off it."""
        if state.lost:
            return ()
        if state.at < len(self.source_ids):
            return (self.source_ids[state.at],)
        return self.end_ids

    def states(self, prefix: Sequence[int], tree: DraftTree) -> list[Pointer]:
        """The state after `prefix`, then after each node of `tree`."""
        found = [self._after(list(prefix[self.skip :]))]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            found.append(found[parent + 1].step(self.source_ids, token))
        return found

    def _after(self, path: list[int]) -> Pointer:
        """The state after `path`, stepping only over tokens that were not stepped over before."""
        known = len(self._path)
        if path[:known] != self._path:
            known = 0
            self._path, self._states = [], [Pointer()]
        for token in path[known:]:
            self._states.append(self._states[-1].step(self.source_ids, token))
        self._path = path if len(path) > known else self._path
        return self._states[len(path)]
