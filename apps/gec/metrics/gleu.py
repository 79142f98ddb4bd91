"""GLEU: n-gram precision against a reference, less the n-grams wrongly kept from the source.

Napoles, Sakaguchi, Post and Tetreault, "Ground Truth for Grammatical Error Correction Metrics" (ACL 2015),
in the 2016 form without a tunable weight ("GLEU Without Tuning", arXiv 1605.02592) that JFLEG reports
(EACL 2017). Several references are handled as there: a corpus score draws one reference per sentence at
random, and the result is the mean over many draws. Knows token lists only; how they were tokenised is the
caller's affair.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np

MAX_ORDER = 4
NUM_DRAWS = 500

Tokens = Sequence[str]


def _ngrams(tokens: Tokens, order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) + 1 - order))


def _sentence_counts(source: Tokens, hypothesis: Tokens, reference: Tokens) -> list[int]:
    """Hypothesis length, reference length, then matches and possible matches per order."""
    counts = [len(hypothesis), len(reference)]
    for order in range(1, MAX_ORDER + 1):
        ours, wanted = _ngrams(hypothesis, order), _ngrams(reference, order)
        should_have_gone = Counter({g: n for g, n in _ngrams(source, order).items() if g not in wanted})
        matches = (ours & wanted).total() - (ours & should_have_gone).total()
        counts += [max(matches, 0), max(len(hypothesis) + 1 - order, 0)]
    return counts


def _score(counts: np.ndarray) -> np.ndarray:
    """Geometric mean of the precisions times the brevity penalty; counts [D, 10] -> scores [D]."""
    counts = counts.astype(np.float64)
    usable = np.asarray((counts > 0).all(axis=1))
    safe = np.where(usable[:, None], counts, 1.0)
    log_precision = np.log(safe[:, 2::2] / safe[:, 3::2]).mean(axis=1)
    brevity = np.minimum(0.0, 1.0 - safe[:, 1] / safe[:, 0])
    return np.where(usable, np.exp(brevity + log_precision), 0.0)


def _drawn_references(draw: int, num_sentences: int, num_refs: int) -> list[int]:
    """One reference per sentence, by the seeds of the authors' script, so that scores agree with it."""
    rng = random.Random(draw * 101)
    return [int(rng.random() * num_refs) for _ in range(num_sentences)]


def gleu(
    sources: Sequence[Tokens],
    hypotheses: Sequence[Tokens],
    references: Sequence[Sequence[Tokens]],
    draws: int = NUM_DRAWS,
) -> float:
    """Return corpus GLEU in percent.

    `references[i]` holds the references of sentence i, the same number for every sentence. Raises
    ValueError when the lists do not line up.
    """
    if not len(sources) == len(hypotheses) == len(references):
        raise ValueError(
            f"{len(sources)} sources, {len(hypotheses)} hypotheses and {len(references)} reference "
            "lists: give one of each per sentence"
        )
    num_refs = {len(refs) for refs in references}
    if len(num_refs) != 1 or 0 in num_refs:
        raise ValueError(f"references per sentence are {sorted(num_refs)}: give every sentence as many")
    counts = np.array(
        [
            [_sentence_counts(source, hypothesis, reference) for reference in refs]
            for source, hypothesis, refs in zip(sources, hypotheses, references, strict=True)
        ]
    )  # [N, R, 10]
    if counts.shape[1] == 1:
        draws = 1
    rows = np.arange(len(sources))
    picks = (_drawn_references(draw, len(sources), counts.shape[1]) for draw in range(draws))
    totals = np.stack([counts[rows, pick].sum(axis=0) for pick in picks])  # [D, 10]
    return 100.0 * float(_score(totals).mean())
