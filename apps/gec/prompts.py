"""What a correction model wants to read around the sentence.

Knows the prefixes of public correction models, by their names. Does not load or run anything.
"""

from __future__ import annotations

from dataclasses import dataclass

SLOT = "{text}"
# For chat models without --prompt: their own chat template is put around this.
INSTRUCTION = (
    "Correct the grammar and spelling of the text below. Change as little as possible. "
    "Answer with the corrected text only.\n\n{text}"
)


@dataclass(frozen=True)
class Family:
    """Models whose name (lower case) contains `name` want `template`."""

    name: str
    template: str


# First match wins. Each is what the model's card tells to write before the sentence.
FAMILIES = (
    Family("coedit", "Fix grammatical errors in this sentence: {text}"),
    Family("t5-base-grammar-correction", "grammar: {text}"),  # vennify, Happy Transformer
    Family("t5-base-fine-tuned-on-jfleg", "grammar: {text}"),  # Modfiededition
    Family("grammar_error_correcter", "gec: {text}"),  # prithivida, Gramformer
    Family("gec-t5", "gec: {text}"),  # Unbabel
)


def check_template(template: str) -> str:
    """`template` itself, or ValueError if the sentence has no place in it."""
    if template.count(SLOT) != 1:
        raise ValueError(
            f"the prompt {template!r} holds {SLOT} {template.count(SLOT)} times; write it once, "
            "where the sentence belongs, for example 'grammar: {text}'"
        )
    return template


def template_for(model: str) -> str | None:
    """The built-in template of the family that `model` (a path or hub id) belongs to; None if it is in none."""
    name = model.casefold().replace("\\", "/")
    return next((family.template for family in FAMILIES if family.name in name), None)


def fill(template: str, text: str) -> str:
    r"""The template with `text` in its slot; `\n`, as a shell gives it, is a line end, other braces mean nothing."""
    return template.replace("\\n", "\n").replace(SLOT, text)
