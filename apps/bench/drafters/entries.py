"""Who takes part: every drafter that can be made here, and every rule; who cannot, with the reason.

Knows names, options and rules. Does not know prompts or times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apps.bench.timing import Failure

if TYPE_CHECKING:
    from core.drafters.base import Drafter
    from core.targets.base import Target

#: Options of each drafter by name, as `--option NAME.KEY=VALUE` gives them.
Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Entry:
    """A drafter under a verification rule; `make` returns it with a state of its own."""

    drafter: str
    rule: str
    make: Callable[[], Drafter]

    @property
    def name(self) -> str:
        """Words for it; the default rule is not said."""
        return self.drafter if self.rule == "exact" else f"{self.drafter}, {self.rule}"


def read_options(items: Iterable[str]) -> dict[str, dict[str, Any]]:
    """`NAME.KEY=VALUE` items by drafter. Raises ValueError for what has another form."""
    options: dict[str, dict[str, Any]] = {}
    for item in items:
        left, equals, value = item.partition("=")
        name, dot, key = left.partition(".")
        if not (equals and dot and name and key):
            raise ValueError(f"--option {item!r} must read DRAFTER.OPTION=VALUE")
        options.setdefault(name, {})[key] = _value(value)
    return options


def _value(text: str) -> Any:
    """A number or a truth value where the text is one."""
    named = {"true": True, "false": False, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def entries(
    target: Target, only: Iterable[str], options: Options, rule_drafters: Iterable[str]
) -> tuple[list[Entry], list[Failure]]:
    """Every drafter under the exact rule, then `rule_drafters` under the others.

    `only` names drafters (joined by "+" for several in one); empty: all there are. Who cannot be made, for want of
    an option or because the target does not suit, is a failure with the reason. Raises ValueError for an unknown name.
    """
    from core import drafters
    from core.verification import RULES

    chosen = list(only) or [name for name in drafters.names() if name != "none"]
    known = set(drafters.names())
    unknown = [name for name in (*chosen, *options) if not set(name.split("+")) <= known]
    if unknown:
        raise ValueError(f"unknown drafter {unknown[0]!r}; there are {', '.join(sorted(known))}")
    found: list[Entry] = []
    failures: list[Failure] = []
    for name in chosen:
        make = _maker(target, name, options.get(name, {}))
        try:
            make()
        except (TypeError, ValueError, OSError) as problem:
            failures.append(Failure(name, str(problem).split("\n")[0]))
            continue
        found.append(Entry(name, "exact", make))
    others = [
        Entry(entry.drafter, rule, entry.make)
        for rule in RULES
        if rule != "exact"
        for entry in found
        if entry.drafter in set(rule_drafters)
    ]
    return found + others, failures


def _maker(target: Target, name: str, options: Mapping[str, Any]) -> Callable[[], Drafter]:
    from core import drafters

    return lambda: drafters.create(name, target, **options)
