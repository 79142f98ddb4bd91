"""Drafts copied from everything that can be copied: one tree over all matches in all sources.

What may follow a node is asked of the aligned text (what is rewritten: the encoder's input, or a prediction), of
every earlier place where the last tokens occurred (sources, prompt, output so far; longest match first), of earlier
answers if they are kept, and of the prompt's commonest tokens. How often each is right is learnt while decoding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any, NamedTuple

from core.drafters.base import Drafter
from core.drafters.best_first import Level, Stretch, grow, learn
from core.drafters.calibration import Calibration
from core.drafters.correction_memory import CorrectionMemory
from core.drafters.rewriting import PRIORS, Place, Rewriting
from core.drafters.shared_answers import SharedAnswers
from core.drafters.suffix_trie import Context, SuffixTrie
from core.drafters.vocabulary import Vocabulary
from core.targets.base import PassOutput
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict

#: Longer matches are as good as this one.
MAX_MATCH = 8
#: So many of the prompt's commonest tokens are tried where no match claims the next one.
NUM_COMMON = 12
#: Trees are grown down to this share of the lowest score that was lately verified: what the budget leaves was grown
#: for nothing. The floor falls by so much where all was verified, as more might be, and rises by no more than so much
#: a pass: what one pass is worth differs from the next one's, and a node left out costs more than one grown in vain.
_MARGIN, _RISE, _FALL = 0.5, 1.2, 0.9
#: Where nothing is verified for a while, sure nodes are still offered.
_HIGHEST_FLOOR = 0.5
#: Nodes that are reached more seldom are not worth a slot: where a text is rewritten most nodes are certain, so that
#: others must pay for themselves; where answers are copied from here and there, there is little else to try.
_MIN_SCORE_ALIGNED, _MIN_SCORE = 0.02, 0.005

_MATCH_PRIORS = (0.0, 0.35, 0.5, 0.62, 0.72, 0.8, 0.85, 0.9, 0.95)


def prior(key: Any) -> float:
    """First estimates: a long match is likelier to go on than a short one."""
    kind = key[0]
    if kind == "match":
        return _MATCH_PRIORS[key[1]]
    if kind == "answer":
        return 0.6 * _MATCH_PRIORS[key[1]]
    if kind == "common":
        return 0.15
    if key[-1] == "remembered":
        return PRIORS["remembered"]
    base = PRIORS[kind]
    return base + (0.97 - base) * (1 - 0.6 ** key[1]) if len(key) == 3 else base


class _State(NamedTuple):
    """A node of the tree: the last tokens before what comes next, and the places in each aligned text."""

    context: tuple[int, ...]
    places: tuple[tuple[Place, ...], ...]


class _Row:
    """Sources of one row, and how far the output has been taken in."""

    def __init__(self, row: Sequence, rewritings: list[Rewriting], answers: SharedAnswers | None) -> None:
        self.rewritings = rewritings
        self.places = tuple(rewriting.places for rewriting in rewritings)
        self._answers = answers
        self._texts = [*_not_within(row.source_ids, row.tokens), *(r.source for r in rewritings), row.tokens]
        self._seen = len(row.tokens)
        self._trie: SuffixTrie | None = None
        self._common: list[tuple[int, int]] | None = None

    def catch_up(self, row: Sequence) -> None:
        new = row.tokens[self._seen :]
        self._seen = len(row.tokens)
        if self._trie is not None:
            self._trie.extend(new)
        for token in new:
            self.places = self._advanced(self.places, token)

    def _advanced(self, places: tuple[tuple[Place, ...], ...], token: int) -> tuple[tuple[Place, ...], ...]:
        return tuple(r.advance(own, token) for r, own in zip(self.rewritings, places, strict=True))

    def root(self, row: Sequence) -> _State:
        return _State(tuple(row.tokens[-MAX_MATCH:]), self.places)

    def follow(self, state: _State, token: int, lead: tuple[Place, ...] | None) -> _State:
        context = (*state.context[1 - MAX_MATCH :], token)
        if lead is not None and len(state.places) == 1:
            return _State(context, (lead,))
        return _State(context, self._advanced(state.places, token))

    def stretch(self, state: _State) -> Stretch | None:
        """A settled copy from the only text that is aligned."""
        if len(state.places) != 1:
            return None
        rewriting, place = self.rewritings[0], state.places[0][0]
        if place.kind != "run" or place.text is not rewriting.source:
            return None
        return Stretch(rewriting.source, rewriting.run_keys, place.position)

    def along(self, state: _State, stretch: Stretch, position: int) -> _State:
        behind = tuple(stretch.tokens[stretch.start : position])
        return _State((*state.context, *behind)[-MAX_MATCH:], (self.rewritings[0].at(position),))

    def levels(self, state: _State) -> Iterator[Level]:
        """Every source's say. Inside a copied stretch the matches only find the same place again."""
        settled = False
        for rewriting, places in zip(self.rewritings, state.places, strict=True):
            yield from rewriting.levels(places)
            settled |= places[0].kind == "run" and places[0].position < len(places[0].text)
        if not settled:
            yield from self._matches(state.context)

    def _matches(self, context: tuple[int, ...]) -> Iterator[Level]:
        """Followers of every suffix of the context, each level without those of the longer ones."""
        if self._trie is None:
            self._trie = SuffixTrie(MAX_MATCH)
            for text in self._texts:
                self._trie.add(text[: self._seen] if text is self._texts[-1] else text)
        found = [("match", self._trie, c) for c in self._trie.contexts(context)]
        if self._answers is not None:
            found += [("answer", self._answers.trie, c) for c in self._answers.trie.contexts(context)]
            found.sort(key=lambda entry: (entry[2].length, entry[0] == "match"))
        claimed: set[int] = set()
        for kind, trie, node in reversed(found):
            level = _level(kind, node, trie.text, claimed)
            if level is not None:
                yield level
        if not self.rewritings:
            yield from self._commonest(claimed)

    def _commonest(self, claimed: set[int]) -> Iterator[Level]:
        if self._common is None:
            counts: Counter[int] = Counter()
            for text in self._texts:
                counts.update(text)
            self._common = counts.most_common(3 * NUM_COMMON)
        options = [(token, count) for token, count in self._common if token not in claimed][:NUM_COMMON]
        total = sum(count for _, count in options)
        yield Level(("common", 0), [(token, count / total, None) for token, count in options])


def _level(kind: str, context: Context, text: Seq[int], claimed: set[int]) -> Level | None:
    followers = context.followers(text)
    new = {t: n for t, n in followers.items() if t not in claimed} if claimed else followers
    if not new:
        return None
    total = sum(new.values())
    key = (kind, context.length, min(total, 3), min(len(new), 3), bool(claimed))
    claimed.update(new)
    return Level(key, [(token, count / total, None) for token, count in new.items()])


def _not_within(sources: Seq[list[int]], tokens: list[int]) -> list[list[int]]:
    """The sources that the prompt does not quote anyway; at their ends the pieces may differ."""
    quoted = " ".join(map(str, tokens))
    return [source for source in sources if f" {' '.join(map(str, source[1:-1]))} " not in quoted]


class Copy(Drafter):
    """The all-match source tree with edit-aware realignment and correction memory.

    Calibration, `memory` (edits) and `answers` (texts written earlier; None: none are kept) live as long as the
    engine and are shared by its rows. `is_aligned` says that outputs rewrite the prompt (encoder-decoder models);
    a `Request.prediction` is aligned with too.
    """

    def __init__(
        self,
        *,
        is_aligned: bool,
        eos_token_ids: frozenset[int] = frozenset(),
        memory: CorrectionMemory | None = None,
        answers: SharedAnswers | None = None,
    ) -> None:
        self.calibration = Calibration(prior)
        self.memory = CorrectionMemory() if memory is None else memory
        self.answers = answers
        self._is_aligned = is_aligned
        self._eos = frozenset(eos_token_ids)
        self._vocabulary: Vocabulary | None = None
        self._rows: dict[int, _Row] = {}
        self._floor = _MIN_SCORE_ALIGNED
        self._grown = 0

    def read_vocabulary(self, tokenizer: Any) -> None:
        self._vocabulary = Vocabulary.of(tokenizer)

    def begin(self, row: Sequence) -> None:
        end_token = min(self._eos) if self._eos else None
        texts = [row.prompt_ids] if self._is_aligned else []
        if row.prediction_ids is not None:
            texts.append(row.prediction_ids)
        rewritings = [Rewriting(text, self.memory, self._vocabulary, end_token) for text in texts]
        self._rows[row.id] = _Row(row, rewritings, self.answers)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees = []
        for row, limit in zip(rows, max_nodes, strict=True):
            own = self._rows[row.id]
            own.catch_up(row)
            if limit > 0:
                least = max(self._floor, _MIN_SCORE_ALIGNED if own.rewritings else _MIN_SCORE)
                trees.append(grow(own, own.root(row), self.calibration, limit, self._eos, least))
            else:
                trees.append(EMPTY_TREE)
        self._grown = sum(map(len, trees))
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        """Learn from every node that was reached: the next token is known there, whatever was guessed."""
        for tree, verdict in zip(trees, verdicts, strict=True):
            learn(self.calibration, tree, verdict)
        self._move_floor(trees)

    def _move_floor(self, trees: Seq[DraftTree]) -> None:
        """What the budget left of the trees says how far the next ones need to go."""
        lowest = min((tree.scores[-1] for tree in trees if tree.scores), default=1.0)
        change = _RISE if sum(map(len, trees)) < self._grown else _FALL
        self._floor = max(min(change * self._floor, _MARGIN * lowest, _HIGHEST_FLOOR), _MIN_SCORE)

    def end(self, row: Sequence) -> None:
        self._rows.pop(row.id)
        if row.finish_reason == "stop" and self._is_aligned:
            self.memory.learn(row.prompt_ids, row.output_ids)
        if row.finish_reason in ("stop", "length") and self.answers is not None:
            self.answers.add(row.output_ids)
