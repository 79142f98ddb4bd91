"""Ways the same text is written that are no errors: treebank tokens, curly quotes, inline code and links.

The same change is made to the source and the target, so that a model leaves it as it finds it.
"""

from __future__ import annotations

import re
from random import Random

from .tables import word_list, word_set

_CONTRACTION = re.compile(r"(?i)\b(\w+)(n['’]t)\b")
_CLITIC = re.compile(r"(?i)(?<=\w)(['’](?:s|m|d|re|ve|ll))\b")
_CANNOT = re.compile(r"(?i)\b(can)(not)\b")
_MARKS = re.compile(r"([,;:@#$%&?!()\[\]{}]|--+|\.\.\.+|—|…)")
_FINAL = re.compile(r"(?<![.\s])\.(?=[\s\"'”’)\]]*$|\s+[A-Z])")
_OPEN = re.compile(r"(^|[\s(\[])\"")
_SPACES = re.compile(r" {2,}")


def treebank(text: str, quotes: str = "``", trailing: bool = False) -> str:
    """Text with its marks set apart, as treebank tokenisers write it; `quotes` gives the opening quote."""
    text = re.sub(r"(?<=\d),(?=\d)", "\0", text)
    text = re.sub(r"(?<=\d):(?=\d)", "\1", text)
    text = _OPEN.sub(rf"\1{quotes} ", text)
    text = text.replace('"', " '' " if quotes == "``" else f" {quotes} " if quotes != '"' else ' " ')
    text = _MARKS.sub(r" \1 ", text)
    text = _FINAL.sub(" .", text)
    text = _CONTRACTION.sub(r"\1 \2", text)
    text = _CLITIC.sub(r" \1", text)
    text = _CANNOT.sub(r"\1 \2", text)
    text = text.replace("\0", ",").replace("\1", ":")
    return _SPACES.sub(" ", text).strip() + (" " if trailing else "")


def curly(text: str) -> str:
    """Straight quotes and apostrophes turned into curly ones."""
    text = re.sub(r"(^|[\s(\[])\"", "\\1“", text).replace('"', "”")
    return re.sub(r"(^|[\s(\[])'", "\\1‘", text).replace("'", "’")


_SYLLABLES = word_list(
    "con fig user data max min get set load run test item path file name key val node list info id log"
)
_DOMAINS = (
    "example.com",
    "docs.python.org",
    "github.com",
    "en.wikipedia.org",
    "mail.example.org",
    "www.site.net",
)
_ENDINGS = (".txt", ".py", ".json", ".md", ".csv", ".html", ".cpp", ".yaml", ".pdf", ".jpg")
_HOSTS = word_set("the this a in with called named use uses using of for from to and see by run open")


def literal(rng: Random) -> str:
    """Something to be left as it is: code, a link, a file, a number, a date, a version, an address."""
    parts = [rng.choice(_SYLLABLES) for _ in range(rng.choice((1, 2, 2, 3)))]
    kind = rng.randrange(12)
    if kind < 3:
        call = rng.choice(("()", "", "", f"({rng.choice(_SYLLABLES)})", "[i]"))
        return "`" + "_".join(parts) + call + "`"
    if kind == 3:
        return parts[0] + "".join(p.capitalize() for p in parts[1:]) + "()"
    if kind == 4:
        return f"https://{rng.choice(_DOMAINS)}/" + "/".join(parts)
    if kind == 5:
        return "-".join(parts) + rng.choice(_ENDINGS)
    if kind == 6:
        return "/" + "/".join(parts) + rng.choice((*_ENDINGS, ""))
    if kind == 7:
        return rng.choice(
            (
                f"{rng.randrange(10000):,}",
                f"${rng.randrange(900)}.{rng.randrange(10, 99)}",
                f"{rng.randrange(100)}%",
            )
        )
    if kind == 8:
        return f"{rng.randrange(1, 13)}:{rng.randrange(10, 60)} {rng.choice(('am', 'pm', 'AM', 'PM'))}"
    if kind == 9:
        return f"v{rng.randrange(9)}.{rng.randrange(20)}.{rng.randrange(9)}"
    if kind == 10:
        return f"{rng.choice(parts)}.{rng.choice(_SYLLABLES)}@{rng.choice(_DOMAINS)}"
    return f"{rng.choice(('--', '-', '#', '@'))}{parts[0]}"


def with_literal(text: str, rng: Random) -> str:
    """The text with a literal set in after a word that can carry one."""
    words = text.split(" ")
    hosts = [i for i, word in enumerate(words[:-1]) if word.lower() in _HOSTS]
    if not hosts:
        return text
    words.insert(rng.choice(hosts) + 1, literal(rng))
    return " ".join(words)
