"""Whether a model's output can be trusted to be a correction of its input.

Knows words and counts them; does not know the model. A correction changes words, it does not lose or invent
passages, so an output is refused, and the source kept as it is, when

    length       the model ran into the token limit without ending;
    empty        nothing came back;
    repetition   a phrase of one to eight words stands three times or more in a row, more often than in the source;
    lost text    one place lost more than `MAX_LOST` words net, or the end of the sentence `MAX_LOST_TAIL` or more;
    added text   one place gained more than `MAX_ADDED` words net;
    rewritten    in a sentence of `MIN_WORDS` or more, less than half of the letters survived.
"""

from __future__ import annotations

from rapidfuzz.distance import Indel, Levenshtein

MAX_LOST = 4
MAX_LOST_TAIL = 3
MAX_ADDED = 4
MIN_WORDS = 6
MIN_SIMILARITY = 0.5
_LONGEST_PHRASE = 8


def problem(source: str, output: str, finish_reason: str = "stop") -> str | None:
    """The name of what is wrong with `output`, or None."""
    if finish_reason != "stop":
        return "length" if finish_reason == "length" else finish_reason
    if source == output:
        return None
    old, new = source.casefold().split(), output.casefold().split()
    if not new:
        return "empty"
    repeats = longest_repeat(new)
    if repeats >= 3 and repeats > longest_repeat(old):
        return "repetition"
    for op in Levenshtein.opcodes(old, new):
        lost = (op.src_end - op.src_start) - (op.dest_end - op.dest_start)
        if lost > MAX_LOST or (op.src_end == len(old) and op.tag != "equal" and lost >= MAX_LOST_TAIL):
            return "lost text"
        if -lost > MAX_ADDED:
            return "added text"
    if len(old) >= MIN_WORDS and Indel.normalized_similarity(" ".join(old), " ".join(new)) < MIN_SIMILARITY:
        return "rewritten"
    return None


def longest_repeat(words: list[str]) -> int:
    """How often in a row a phrase of up to eight words repeats itself, at most: 1 if none does."""
    most = 1
    for size in range(1, min(_LONGEST_PHRASE, len(words) // 2) + 1):
        run = 0  # words that equal the one `size` places earlier, in a row
        for at in range(size, len(words)):
            run = run + 1 if words[at] == words[at - size] else 0
            most = max(most, 1 + run // size)
    return most
