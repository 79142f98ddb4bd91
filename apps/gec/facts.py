"""What a correction leaves as it is, because it is no grammar: addresses, code, figures, symbols, names, identifiers.

Knows text only, and always whole sentences: what stands beside an address becomes a part of it. Small English models
spell "Łódź", "Bacharach" or an emoji wrongly far oftener than their writers do.
"""

from __future__ import annotations

import re

from .typography import straight

_CODE = re.compile(r"`[^`\n]+`")
# Web and mail addresses, with and without their scheme; what is joined to one in front is a part of it.
_ADDRESS = re.compile(
    r"(?<!\S)\S*?://\S+|\bwww\b\S*|\S+@\S+\.\S+|\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|edu|gov|info|io)\b\S*"
)
# "owner/project-name", "src/main.rs": what has another mark in it than strokes is hardly "and/or".
_PATH = re.compile(r"\b(?=[\w/]*[-._]\w)\w[\w.-]*(?:/\w[\w.-]*)+")
# Tags of HTML; commands of LaTeX, some with what they name.
_MARKUP = re.compile(r"</?[A-Za-z][^<>\n]*>|\\(?:cite|ref|label|url|begin|end)\w*\{[^{}\n]*\}|\\[A-Za-z]+")
_DIGITS = re.compile(r"\d+")
# Marks of formulas, programs, placeholders ("%s") and Markdown.
_SIGNS = frozenset("*#=+<>|~^\\{}@[]%$")
# A capital behind a lower-case word or a comma begins a name, not a sentence; "I" is none.
_NAMES = re.compile(r"(?<=[a-z,] )(?!I\b)[A-Z][\w-]*(?: [A-Z][\w-]*)*")
# "cacheAsBitmap", "CityCenter", "max_rows", "fp32": whoever writes a word so means it.
_COINED = re.compile(r"\b\w*(?:[a-z][A-Z]|[^\W_]_|[A-Za-z]\d)\w*")
# Case and the apostrophe of "Johns brother" are grammar in names too.
_LOOSE = re.compile(r"['-]")


def are_kept(seen: str, output: str, *, keep_letters: bool = True) -> bool:
    """Whether all facts of `seen` are in `output`, and no other addresses, figures and symbols.

    Letters outside ASCII count as symbols where `keep_letters` says so: in English they belong to names.
    """
    if _exact(seen, keep_letters) != _exact(output, keep_letters):
        return False
    had, has = set(_COINED.findall(seen)), set(_COINED.findall(output))
    # Of new ones only the case may be: "github" -> "GitHub".
    if had - has or any(word.casefold() not in seen.casefold() for word in has - had):
        return False
    names = {_loosened(word) for run in _NAMES.findall(seen) for word in run.split()}
    if not names:
        return True
    before, after = _loosened(seen), _loosened(output)
    return all(after.count(name) >= before.count(name) for name in names)


def is_marked(text: str, start: int, end: int) -> bool:
    """Whether a sign stands at `text[start:end]`, as in "**bold**", which would mark nothing without it."""
    return not _SIGNS.isdisjoint(text[max(0, start - 1) : start] + text[end : end + 1])


def _exact(text: str, keep_letters: bool) -> list[str]:
    """Addresses, paths, code, tags and commands, figures, signs, and characters outside ASCII; each in order."""
    text = straight(text)
    foreign = [c for c in text if c in _SIGNS or _is_foreign(c, keep_letters)]
    return [
        found for kind in (_ADDRESS, _PATH, _CODE, _MARKUP, _DIGITS) for found in kind.findall(text)
    ] + foreign


def _is_foreign(char: str, keep_letters: bool) -> bool:
    return char > "\x7f" and (keep_letters or not char.isalpha()) and not char.isspace()


def _loosened(text: str) -> str:
    return _LOOSE.sub("", straight(text)).casefold()
