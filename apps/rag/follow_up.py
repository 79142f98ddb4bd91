"""Follow-up questions made to stand alone, so that they can be looked up and answered without the history.

Knows English function words and messages. Two ways: carry the words of the last question along (works with any
model, costs nothing), or let the model rewrite the question. Which one is right is the model's size: small models
rewrite worse than no rewriting at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

WAYS = ("auto", "words", "model", "off")
#: Models with fewer parameters get `words` under `auto`.
ABLE_PARAMETERS = 500_000_000
_MAX_CARRIED = 8

_WORD = re.compile(r"\w+(?:[-'’.]\w+)*")
_POINTING_WORDS = """
it its they them their theirs this that these those he she him his her hers one ones former latter same
"""
_OTHER_FUNCTION_WORDS = """
a about again all also am an and any are as at be been being but by can could did do does doing done else every explain
for from give had has have how i if in into is just like many may me mean means might more most much must my no not of
on only or other our out please say says shall should show so some such tell than the then there through to too up us
use used very was we were what what's when where which who whom whose why will with would you your
"""
_POINTING = frozenset(_POINTING_WORDS.split())
_FUNCTION_WORDS = _POINTING | frozenset(_OTHER_FUNCTION_WORDS.split())
_LEADS_ON = re.compile(
    r"\s*(?:and|but|or|so|then|also|what about|how about|why|why not|more|else)\b", re.IGNORECASE
)
_REWRITE = (
    "Rewrite the last question so that it can be understood without the conversation. "
    "Write only the question.\n\n{turns}\nLast question: {question}"
)


def content_words(text: str) -> list[str]:
    """The words that say what the text is about, in order, each once, as written."""
    found: dict[str, str] = {}
    for word in _WORD.findall(text):
        key = word.casefold()
        if key not in _FUNCTION_WORDS:
            found.setdefault(key, word)
    return list(found.values())


def is_follow_up(question: str) -> bool:
    """Whether the question points back (it, they, that ...), leads on (and, what about ...) or names nothing."""
    words = [word.casefold() for word in _WORD.findall(question)]
    points_back = any(word in _POINTING for word in words)
    return points_back or bool(_LEADS_ON.match(question)) or len(content_words(question)) < 2


def with_carried_words(question: str, earlier: str) -> str:
    """The question and, in brackets, what the earlier question (standing alone itself) was about."""
    own = {word.casefold() for word in content_words(question)}
    carried = [word for word in content_words(earlier) if word.casefold() not in own][:_MAX_CARRIED]
    return f"{question} ({' '.join(carried)})" if carried else question


def rewritten(model: BaseChatModel, question: str, earlier: Sequence[tuple[str, str]]) -> str:
    """The question as the model would ask it without the conversation; `earlier` holds (question, answer) pairs.

    An empty or rambling rewrite is not trusted: then the question comes back as it was.
    """
    turns = "\n".join(f"Question: {asked}\nAnswer: {answered}" for asked, answered in earlier[-3:])
    said = model.invoke([HumanMessage(_REWRITE.format(turns=turns, question=question))])
    lines = [line.strip() for line in str(said.text).strip().splitlines() if line.strip()]
    is_usable = len(lines) == 1 and len(lines[0]) <= 4 * len(question) + 200
    return lines[0].removeprefix("Last question: ") if is_usable else question


def standalone(
    question: str, earlier: Sequence[tuple[str, str]], way: str, model: BaseChatModel | None = None
) -> str:
    """The question to look up. `way` is one of `WAYS` without `auto`; `model` is needed for `model`."""
    if way == "off" or not earlier or not is_follow_up(question):
        return question
    if way == "model":
        assert model is not None, "rewriting needs a model"
        return rewritten(model, question, earlier)
    return with_carried_words(question, earlier[-1][0])
