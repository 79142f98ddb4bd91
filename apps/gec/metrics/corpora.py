"""The evaluation sets: where they lie, how they are tokenised, what counts as their references.

A set is a list of sentences to correct with their references as tokens. Tokenised sets (JFLEG and the M2 form
of CWEB) go to the model as they are and their outputs are split at spaces; the others are ordinary text, cut
by one simple pattern on every side. Nothing here is shipped: a missing set raises MissingSet with its path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from apps.gec.metrics.m2 import read_m2
from apps.places import shipped

DEFAULT_FOLDER = Path("../shared/data")
# Ships with the repository: one sentence a row, without references.
SAMPLES = shipped("samples/sentences.jsonl")

# A word keeps its inner apostrophes, hyphens and dots ("don't", "pre-season", "3.5"); signs stand alone.
_TOKEN = re.compile(r"`[^`\n]+`|https?://\S+|\w+(?:[-'\u2019.,]\w+)*|[^\w\s]")

Tokenizer = Callable[[str], list[str]]


class MissingSet(FileNotFoundError):
    """An evaluation set is not on this machine."""


@dataclass(frozen=True)
class EvalSet:
    """Sentences to correct. `references[i]` is empty for every i of a set of clean sentences."""

    name: str
    sentences: list[str]
    references: list[list[list[str]]]
    tokenize: Tokenizer

    def head(self, limit: int | None) -> EvalSet:
        """The first `limit` sentences, all for None."""
        return EvalSet(self.name, self.sentences[:limit], self.references[:limit], self.tokenize)

    @property
    def is_clean(self) -> bool:
        """Whether the set holds only sentences that must come back as they are."""
        return not any(self.references)

    @property
    def has_equal_references(self) -> bool:
        """Whether every sentence has as many references, as GLEU requires."""
        return len({len(refs) for refs in self.references}) == 1 and not self.is_clean


def tokenize_text(text: str) -> list[str]:
    """Cut ordinary text into words and signs."""
    return _TOKEN.findall(text)


def _lines(path: Path) -> list[str]:
    if not path.exists():
        raise MissingSet(f"{path} is not here; give the folder of the evaluation sets with --data")
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [line.strip() for line in lines]


def _parallel(name: str, source: Path, references: list[Path], tokenize: Tokenizer) -> EvalSet:
    columns = [_lines(path) for path in references]
    rows = zip(_lines(source), *columns, strict=True)
    pairs = [(src, [tokenize(ref) for ref in refs]) for src, *refs in rows]
    return EvalSet(name, [src for src, _ in pairs], [refs for _, refs in pairs], tokenize)


def _jfleg(data: Path) -> EvalSet:
    folder = data / "eval/jfleg_dev"
    return _parallel("jfleg", folder / "dev.src", [folder / f"dev.ref{i}" for i in range(4)], str.split)


def _cweb(data: Path, domain: str) -> EvalSet:
    """CWEB as its web pages have it, with both annotators' corrected text."""
    stem = data / "eval/cweb_dev"
    source = stem / f"CWEB-{domain}.dev.source"
    annotators = [stem / f"CWEB-{domain}.dev.ann{i}" for i in (1, 2)]
    return _parallel(f"cweb_{domain.lower()}", source, annotators, tokenize_text)


def _cweb_m2(data: Path, domain: str) -> EvalSet:
    """CWEB as published for scoring: tokenised, edits in M2."""
    path = data / f"eval/cweb_dev/CWEB-{domain}.dev.m2"
    if not path.exists():
        raise MissingSet(f"{path} is not here; give the folder of the evaluation sets with --data")
    rows = list(read_m2(path))
    name = f"cweb_{domain.lower()}_m2"
    return EvalSet(name, [" ".join(r.source) for r in rows], [r.references for r in rows], str.split)


def _json_rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in _lines(path) if line]


def _pairs(name: str, path: Path) -> EvalSet:
    rows = _json_rows(path)
    references = [[tokenize_text(row["tgt"])] for row in rows]
    return EvalSet(name, [row["src"] for row in rows], references, tokenize_text)


def _clean(name: str, sentences: list[str]) -> EvalSet:
    return EvalSet(name, sentences, [[] for _ in sentences], tokenize_text)


def _open_targets(data: Path) -> EvalSet:
    rows = _json_rows(data / "eval/git_edits_open_test.jsonl")
    return _clean("open_clean", [row["tgt"] for row in rows])


def _harper_clean(data: Path) -> EvalSet:
    return _clean("harper_clean", [row["text"] for row in _json_rows(data / "pairs/harper_clean.jsonl")])


def _gmeg(data: Path, domain: str) -> EvalSet:
    folder = data / "eval/gmeg_dev"
    references = [folder / f"dev.{domain}.ref{i}" for i in range(4)]
    return _parallel(f"gmeg_{domain}", folder / f"dev.{domain}.source", references, str.split)


def sample_sentences(path: Path = SAMPLES) -> list[str]:
    """Return the sentences that ship, for measuring speed where the evaluation sets are absent."""
    return [row["text"] for row in _json_rows(path)]


SETS: Mapping[str, Callable[[Path], EvalSet]] = {
    "jfleg": _jfleg,
    "cweb_g": lambda data: _cweb(data, "G"),
    "cweb_s": lambda data: _cweb(data, "S"),
    "cweb_g_m2": lambda data: _cweb_m2(data, "G"),
    "cweb_s_m2": lambda data: _cweb_m2(data, "S"),
    "gmeg_wiki": lambda data: _gmeg(data, "wiki"),
    "gmeg_fce": lambda data: _gmeg(data, "fce"),
    "ewt": lambda data: _pairs("ewt", data / "eval/ud_ewt_pairs.jsonl"),
    "open": lambda data: _pairs("open", data / "eval/git_edits_open_test.jsonl"),
    "open_clean": _open_targets,
    "harper_clean": _harper_clean,
}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "cweb": ("cweb_g", "cweb_s"),
    "cweb_m2": ("cweb_g_m2", "cweb_s_m2"),
    "gmeg": ("gmeg_wiki", "gmeg_fce"),
    "clean": ("harper_clean", "open_clean"),
    "all": tuple(SETS),
}


def set_names(listed: str) -> list[str]:
    """Resolve "jfleg,cweb,clean" to names of sets. Raises ValueError for a name of neither set nor group."""
    names: list[str] = []
    for name in filter(None, (part.strip() for part in listed.split(","))):
        if name not in SETS and name not in GROUPS:
            raise ValueError(f"no evaluation set {name!r}; there are {', '.join([*SETS, *GROUPS])}")
        names += [n for n in GROUPS.get(name, (name,)) if n not in names]
    return names


def load_set(name: str, data: Path = DEFAULT_FOLDER) -> EvalSet:
    """Read one set. Raises MissingSet where its files are absent."""
    return SETS[name](data)
