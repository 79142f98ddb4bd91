"""The plain way to find the telling sentence, to measure a model by: the words that it shares with the question.

Knows words. Does not know models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

from apps.rag.prompts import quoted

from .documents import split_sentences
from .held_questions import HeldQuestion
from .questions import content_stems


def answers_by_words(questions: Sequence[HeldQuestion]) -> list[str]:
    """For each question the sentence that has most of its words, the rarer ones counting more; none is left.

    Each word counts once, by its inverse document frequency among the passages of all questions; those of a title for
    every sentence of its passage. Of equals, the first.
    """
    texts = {p.text for held in questions for p in held.passages}
    counts = Counter(word for text in texts for word in content_stems(text))

    def shared(wanted: set[str], words: set[str]) -> float:
        return sum(log((len(texts) + 1) / (counts[word] + 1)) for word in wanted & words)

    def answer(held: HeldQuestion) -> str:
        wanted = content_stems(held.question)
        candidates = [
            (shared(wanted, content_stems(f"{passage.title} {sentence}")), quoted(sentence, number))
            for number, passage in enumerate(held.passages, 1)
            for sentence in split_sentences(passage.text)
        ]
        return max(candidates, key=lambda candidate: candidate[0])[1]

    return [answer(held) for held in questions]
