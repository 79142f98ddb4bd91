"""All scores of one set of outputs, beside the scores of doing nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from apps.gec.metrics.corpora import EvalSet
from apps.gec.metrics.edits import score_edits
from apps.gec.metrics.gleu import gleu
from apps.gec.metrics.preservation import KINDS, has_loop, kept, lost_tail


@dataclass(frozen=True)
class Quality:
    """Scores of one system on one set, in percent where not a count; None where the set cannot tell.

    `clean_changed` is over the sentences that no annotator changed (`clean_sentences` of them); `kept` gives,
    per kind of span, the share of the sentences with such spans in which all of them came back.
    """

    sentences: int
    gleu: float | None
    precision: float | None
    recall: float | None
    f05: float | None
    changed: float
    clean_sentences: int
    clean_changed: float | None
    kept: dict[str, float | None]
    lost_tails: int
    loops: int

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return asdict(self)


def _percent(part: int, whole: int) -> float | None:
    return 100.0 * part / whole if whole else None


def _kept_shares(sources: Sequence[str], outputs: Sequence[str]) -> dict[str, float | None]:
    shares: dict[str, float | None] = {}
    for kind in KINDS:
        checks = [kept(source, output, kind) for source, output in zip(sources, outputs, strict=True)]
        shares[kind] = _percent(checks.count(True), len(checks) - checks.count(None))
    return shares


def assess(corpus: EvalSet, outputs: Sequence[str]) -> Quality:
    """Score the outputs, one per sentence of the corpus in its order."""
    sources = [corpus.tokenize(sentence) for sentence in corpus.sentences]
    hypotheses = [corpus.tokenize(output) for output in outputs]
    differs = [source != hypothesis for source, hypothesis in zip(sources, hypotheses, strict=True)]
    clean = [
        changed
        for source, refs, changed in zip(sources, corpus.references, differs, strict=True)
        if all(ref == source for ref in refs)
    ]
    edits = None if corpus.is_clean else score_edits(sources, hypotheses, corpus.references)
    return Quality(
        sentences=len(sources),
        gleu=gleu(sources, hypotheses, corpus.references) if corpus.has_equal_references else None,
        precision=100 * edits.precision if edits else None,
        recall=100 * edits.recall if edits else None,
        f05=100 * edits.f() if edits else None,
        changed=100.0 * sum(differs) / max(len(differs), 1),
        clean_sentences=len(clean),
        clean_changed=_percent(sum(clean), len(clean)),
        kept=_kept_shares(corpus.sentences, outputs),
        lost_tails=sum(map(lost_tail, corpus.sentences, outputs)),
        loops=sum(map(has_loop, corpus.sentences, outputs)),
    )
