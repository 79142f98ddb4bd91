"""Clean sentences and corrected pairs: where they lie, how they are mixed, what is kept out.

The text is packed once into one file per source (a sentence a line, an empty line between paragraphs).
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from apps.gec.corruption import Lexicon
from apps.gec.corruption.tables import word_set

# Source -> (pattern under text/, share of the sentences drawn).
SOURCES: dict[str, tuple[str, float]] = {
    "docs_prose": ("docs_prose/*.txt.gz", 0.25),
    "gov_blogs": ("gov_blogs/*.txt.gz", 0.18),
    "standardebooks": ("standardebooks/*.txt.gz", 0.11),
    "common_voice": ("common_voice_sentences.txt.gz", 0.10),
    "tatoeba": ("tatoeba_eng.txt.gz", 0.07),
    "gsm8k": ("gsm8k.txt.gz", 0.04),
    "sgd": ("sgd_dialogues.txt.gz", 0.03),
    "wiki_split": ("wiki_split.txt.gz", 0.06),
    "onestopenglish": ("onestopenglish.txt.gz", 0.09),
    "state_union": ("nltk_public_domain_state_union.txt.gz", 0.04),
    "inaugural": ("nltk_public_domain_inaugural.txt.gz", 0.01),
    "african_storybook": ("african_storybook.txt.gz", 0.015),
    "xquad": ("xquad_en.txt.gz", 0.005),
}
_ABBREVIATED = word_set(
    "mr mrs ms dr st prof sr jr vs etc e.g i.e no fig al inc ltd co corp dept gen col capt lt sgt rev hon "
    "u.s u.k a.m p.m"
)
_BOUNDARY = re.compile(r"(?<=[.!?])(['\"”’)\]]*)\s+(?=['\"“‘(\[]?[A-Z0-9])")
_ENDS = re.compile(r"[.!?]['\"”’)\]]*$")
_WORD = re.compile(r"[a-z]+")
_BAD = re.compile(r"<unk>|\ufffd|\||\{\{|@-@|^\W*$")


def need_data(data: Path) -> Path:
    """The data folder, or an error that says what is missing and how to name another."""
    if not (data / "text").is_dir():
        raise FileNotFoundError(
            f"no training text at {data / 'text'}: give the folder that holds text/ with --data DIR"
        )
    return data


def split_sentences(paragraph: str) -> list[str]:
    """A paragraph cut into sentences, simply: marks, then a capital, and no known abbreviation before."""
    out: list[str] = []
    start = 0
    for match in _BOUNDARY.finditer(paragraph):
        words = paragraph[start : match.start()].split()
        last = words[-1].rstrip(".").lstrip("([\"'").lower() if words else ""
        if paragraph[match.start() - 1] == "." and (last in _ABBREVIATED or len(last) == 1):
            continue
        out.append(paragraph[start : match.end()].rstrip())
        start = match.end()
    out.append(paragraph[start:].strip())
    return [sentence for sentence in out if sentence]


def is_clean(sentence: str, lexicon: Lexicon) -> bool:
    """Whether a sentence may stand as a right answer: whole, ordinary English, no known misspelling."""
    if not 8 <= len(sentence) <= 700 or not _ENDS.search(sentence) or _BAD.search(sentence):
        return False
    if (
        not (sentence[0].isupper() or sentence[0] in "\"'“‘(")
        or re.search(r"\bi\b", sentence)
        or "  " in sentence
    ):
        return False
    letters = sum(c.isalpha() or c == " " for c in sentence)
    if letters < 0.8 * len(sentence) or sum(ord(c) > 0x2100 or 0x250 < ord(c) < 0x2000 for c in sentence):
        return False
    return lexicon.wrong_words.isdisjoint(_WORD.findall(sentence.lower()))


def pack_corpus(data: Path, out: Path, lexicon: Lexicon) -> dict[str, int]:
    """Writes one file of clean sentences per source into `out`; returns how many sentences each has."""
    out.mkdir(parents=True, exist_ok=True)
    counts: dict[str, int] = {}
    for name, (pattern, _) in SOURCES.items():
        lines: list[str] = []
        count = 0
        for path in sorted((data / "text").glob(pattern)):
            with gzip.open(path, "rt", encoding="utf-8") as paragraphs:
                for paragraph in paragraphs:
                    kept = [s for s in split_sentences(paragraph.strip()) if is_clean(s, lexicon)]
                    if kept:
                        lines += [*kept, ""]
                        count += len(kept)
        (out / f"{name}.txt").write_text("\n".join(lines), "utf-8")
        counts[name] = count
    (out / "counts.json").write_text(json.dumps(counts, indent=1))
    return counts


@dataclass
class Corpus:
    """Packed sentences, drawn by source; one line in `held_every` is kept for validation."""

    lines: dict[str, list[str]]
    held_every: int = 200

    @classmethod
    def load(cls, folder: Path) -> Corpus:
        """Reads what `pack_corpus` wrote."""
        files = sorted(folder.glob("*.txt"))
        return cls({path.stem: path.read_text("utf-8").split("\n") for path in files if path.stat().st_size})

    def draw(self, rng: Random, held_out: bool = False) -> str:
        """One sentence, now and then two or three that follow each other."""
        names = list(self.lines)
        name = rng.choices(names, [SOURCES[n][1] if n in SOURCES else 1.0 for n in names])[0]
        lines = self.lines[name]
        while True:
            at = rng.randrange(len(lines))
            if lines[at] and (at % self.held_every == 0) == held_out:
                break
        span = rng.choices((1, 2, 3), (0.86, 0.12, 0.02))[0]
        picked = [lines[at]]
        for k in range(at + 1, min(at + span, len(lines))):
            if not lines[k] or (k % self.held_every == 0) != held_out:
                break
            picked.append(lines[k])
        return " ".join(picked)


Pair = tuple[str, str]


def _rows(path: Path) -> Iterator[dict[str, object]]:
    reader = gzip.open if path.suffix == ".gz" else open
    with reader(path, "rt", encoding="utf-8") as rows:
        for row in rows:
            if row.strip():
                yield json.loads(row)


def read_pairs(path: Path) -> list[Pair]:
    """A JSONL file of {"src", "tgt"}."""
    pairs = [(str(row["src"]), str(row["tgt"])) for row in _rows(path)]
    if not pairs:
        raise ValueError(f'{path} holds no pairs: one {{"src": ..., "tgt": ...}} a line is expected')
    return pairs


def _sane(pairs: Iterable[Pair]) -> list[Pair]:
    """Pairs that are corrections, not rewritings: close in length, not empty."""
    kept = []
    for src, tgt in pairs:
        a, b = len(src.split()), len(tgt.split())
        if src.strip() and tgt.strip() and abs(a - b) <= 3 + 0.25 * max(a, b):
            kept.append((src.strip(), tgt.strip()))
    return kept


_BLIMP_TERMS = ("determiner_noun_agreement", "subject_verb_agreement", "irregular_forms")


def load_pairs(data: Path) -> dict[str, list[Pair]]:
    """The corrected pairs by kind; the clean sentences of the Harper tests come as pairs of equals."""
    folder = data / "pairs"
    found: dict[str, list[Pair]] = {}
    names = {"tierA": "git_edits_tierA.jsonl.gz", "tierB": "git_edits_tierB.jsonl.gz"}
    names |= {"eracond": "eracond.jsonl", "harper": "harper.jsonl"}
    for name, file in names.items():
        if (folder / file).exists():
            found[name] = _sane(read_pairs(folder / file))
    if (folder / "harper_clean.jsonl").exists():
        clean = [str(row["text"]) for row in _rows(folder / "harper_clean.jsonl")]
        found["harper_clean"] = [(text, text) for text in clean if text.strip()]
    if (folder / "blimp.jsonl.gz").exists():
        rows = [r for r in _rows(folder / "blimp.jsonl.gz") if r["term"] in _BLIMP_TERMS]
        found["blimp"] = _sane((str(r["src"]), str(r["tgt"])) for r in rows)
    return found


# Shares among the real pairs.
PAIR_SHARES = {
    "tierA": 0.58,
    "tierB": 0.07,
    "eracond": 0.13,
    "harper": 0.13,
    "harper_clean": 0.04,
    "blimp": 0.05,
}


def draw_pair(pairs: dict[str, list[Pair]], rng: Random, identity: float) -> Pair:
    """One real pair; with the given chance its right side twice."""
    names = list(pairs)
    name = rng.choices(names, [PAIR_SHARES.get(n, 1.0) for n in names])[0]
    src, tgt = rng.choice(pairs[name])
    return (tgt, tgt) if rng.random() < identity else (src, tgt)
