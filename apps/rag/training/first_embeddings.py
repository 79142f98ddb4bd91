"""First embeddings for the chat model: what a token means, which word it is a form of, which token it is."""

from __future__ import annotations

import re
from dataclasses import astuple
from typing import Any

import torch
from torch import Tensor

from .marks import Marks
from .questions import stem
from .token_weights import are_mute
from .tokenizer import SYSTEM

#: Widths of the three parts.
REST, MATCH, OWN = 3, 48, 32
#: A dimension that is the same in every embedding gives heads something constant to look for.
CONSTANT = 0.4
#: How many marks have a dimension in the part that is a token's own: lines that begin with them are not quoted.
LINES = 3
# How much of a token's matching part is its own, not its word's: "Bees", "bees" and "bee" match, but not wholly.
_OWN = 0.2
# How much of an abbreviation's matching part says that it is one.
_SHORTNESS = 2.0
# Tokens that end a sentence, and those that begin a heading.
_ENDS = re.compile(r"""["')\]]*[.!?]["')\]]*""")
_HEADING = re.compile("#+")
# Those behind which a full stop does not end a sentence: single letters, abbreviations before names and numbers.
_SHORT = re.compile(
    "[A-Z]|Dr|Mrs?|Ms|St|Mt|No|Sr|Jr|Lt|Sgt|Capt|Col|Gen|Rev|Prof|Gov|Sen|Rep|Fig|Vol|Ġ(?:[bcdpv]|no|vs|al|fig|vol)"
)


def first_embeddings(tokenizer: Any, rows: int, seed: int, weights: Tensor | None) -> Tensor:
    """Three parts in a table `[rows, REST + MATCH + OWN]`: constant and weight; matching; the token's own.

    `weights` `[V]` say how much each token tells of what is asked for (-1 to 1); without them every word weighs 1, a
    function word -1.
    """
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(rows, REST + MATCH + OWN, generator=generator)
    rest, match, own = table.split((REST, MATCH, OWN), dim=1)
    marks = Marks.of(tokenizer)
    match[: len(tokenizer)] = _word_likeness(tokenizer, marks, generator)
    own[: len(tokenizer)] = _with_marks(own[: len(tokenizer)], marks, LINES)
    own[_matching(tokenizer, _HEADING)] = own[marks.heading].clone()
    rest[:, 1] = 0.0
    if weights is None:
        vocabulary = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        weights = torch.ones(len(tokenizer)).masked_fill(are_mute(vocabulary), -1.0)
    rest[: len(weights), 1] = weights / 3**0.5
    # Tokens of equal length: were one longer, the constant would be weaker in it, and heads would pass it by.
    rest[:, 2] = (1 - rest[:, 1] ** 2).sqrt()
    rest[:, 1:].div_(3**0.5)
    for part in (match, own):
        part.div_(part.norm(dim=1, keepdim=True) * 3**0.5)
    rest[:, 0] = CONSTANT
    # As much as the constant, to the last bit: what reads the one less the other finds nothing there, rounded or not.
    place = astuple(marks).index(SYSTEM)
    match[SYSTEM, place] = CONSTANT
    match[SYSTEM, 32 + place] = (1 / 3 - CONSTANT**2) ** 0.5
    # Where heads look that find nothing: there is nothing to carry from there.
    own[SYSTEM] = 0.0
    return table


def _word_likeness(tokenizer: Any, marks: Marks, generator: torch.Generator) -> Tensor:
    """Matching parts `[V, D]` of unit length: forms of a word, by its stem without case, lie near each other.

    The tokens that structure what is read have a dimension each, which no other token has a share in.
    """
    vocabulary = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    stems = [stem(token.lstrip("Ġ")) or token for token in vocabulary]
    numbers = {word: k for k, word in enumerate(dict.fromkeys(stems))}
    words = torch.randn(len(numbers), MATCH, generator=generator)
    own = torch.randn(len(vocabulary), MATCH, generator=generator)
    parts = words[torch.tensor([numbers[word] for word in stems])] + _OWN * own
    short = len(astuple(marks))
    parts[:, short] = 0.0
    parts[_matching(tokenizer, _SHORT), short] = _SHORTNESS
    parts = _with_marks(parts, marks, short)
    parts[_matching(tokenizer, _ENDS)] = parts[marks.full_stop].clone()
    return parts


def _matching(tokenizer: Any, form: re.Pattern[str]) -> list[int]:
    """Ids of the tokens that wholly have a form."""
    vocabulary = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return [token for token, text in enumerate(vocabulary) if form.fullmatch(text)]


def _with_marks(parts: Tensor, marks: Marks, count: int) -> Tensor:
    """Unit vectors `[V, D]`; the first `count` marks have a dimension each to themselves (two where D > 32).

    The first 32 dimensions are as long in every one: fewer than all of them are kept of the tokens before.
    """
    parts[:, :count] = 0.0
    if parts.shape[1] > 32:
        # Heads look at the first token of all where they find nothing: no other is like it in any dimension.
        parts[:, 32 + astuple(marks).index(marks.system)] = 0.0
    rows = list(astuple(marks)[:count])
    for part in parts.split(32, dim=1):
        part[rows] = torch.eye(max(part.shape))[: len(rows), : part.shape[1]]
        part *= (part.shape[1] / parts.shape[1]) ** 0.5 / part.norm(dim=1, keepdim=True)
    return parts
