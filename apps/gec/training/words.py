"""`python -m apps.gec.training.words`: make the list of English words that the corrector trusts.

SCOWL's British list and its American variants, and what technical writers use besides: words of lower case that
several of the training texts hold and no list of misspellings does.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from apps.gec.vocabulary import ENGLISH, bare
from apps.places import SHARED_DATA
from apps.printing import say, told

from .corpus import need_data

# A word of the texts is taken if so many of them hold it, so often in all.
_TEXTS, _TIMES = 3, 10
# SCOWL's size of the British list; larger ones hold what is likelier a slip.
_LEVEL = 70
_LOWER_CASE = re.compile(r"(?<![\w'-])[a-z]{3,}(?![\w'-])")
_HEAD = re.compile(r"# .*\(level (\d+)\)")


def _listed(noise: Path) -> set[str]:
    lines = (noise / "errant_en_GB-large.txt").read_text(encoding="utf-8").splitlines()
    return {line.strip().lower() for line in lines}


def _variants(noise: Path) -> Iterator[str]:
    """The spellings of VarCon that any English takes: `A Bv: color / B: colour | note`, x and - being wrong ones."""
    level = 0
    with gzip.open(noise / "varcon_us_uk_variants.txt.gz", "rt", encoding="latin-1") as lines:
        for line in lines:
            if line.startswith("#"):
                head = _HEAD.match(line)
                level = int(head[1]) if head else _LEVEL + 1
            elif line.strip() and level <= _LEVEL:
                for spelling in line.partition("|")[0].split(" / "):
                    tags, _, word = spelling.partition(":")
                    if any(tag[-1] not in "x-." for tag in tags.split()):
                        yield word.strip().lower()


def _used(text: Path) -> set[str]:
    """Words that several texts hold."""
    times: Counter[str] = Counter()
    texts: Counter[str] = Counter()
    for path in sorted(text.rglob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found = Counter(_LOWER_CASE.findall(lines.read()))
        times.update(found)
        texts.update(found.keys())
    return {word for word, count in times.items() if count >= _TIMES and texts[word] >= _TEXTS}


def _misspelt(noise: Path) -> set[str]:
    with gzip.open(noise / "misspellings.jsonl.gz", "rt", encoding="utf-8") as rows:
        return {json.loads(row)["wrong"] for row in rows}


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def main(
    data: Annotated[
        Path, typer.Option(help="Folder with text/ and noise/.", show_default="../shared/data, beside this")
    ] = SHARED_DATA,
    out: Annotated[
        Path, typer.Option(help="The list to write.", show_default="the one that ships")
    ] = ENGLISH,
) -> None:
    """Make the list of English words."""
    with told(FileNotFoundError):
        noise = need_data(data) / "noise"
        words = _listed(noise) | set(_variants(noise)) | (_used(data / "text") - _misspelt(noise))
    kept = sorted({bare(word) for word in words if not word.endswith("'s")})
    out.write_bytes(gzip.compress("\n".join(kept).encode(), mtime=0))
    say(f"{len(kept):,} words in {out}")


if __name__ == "__main__":
    app()
