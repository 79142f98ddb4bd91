"""Who takes part: every drafter that can be made here, and every rule; who cannot, with the reason.

Knows names, options and rules. Does not know prompts or times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps import drafter_options
from apps.bench.timing import Failure

if TYPE_CHECKING:
    from core.drafters.base import Drafter
    from core.targets.base import Target

#: Options of each drafter by name, as `--option NAME.KEY=VALUE` gives them.
Options = Mapping[str, Mapping[str, Any]]

#: Drafters whose draft models may be targets that are loaded already, and the options that name them.
_TAKES_TARGETS = ("draft_model", "spec_infer", "cascade")
_MODELS = ("model", "models")


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
    items = list(items)
    for item in items:
        name, dot, key = item.partition("=")[0].partition(".")
        if not (name and dot and key):
            raise ValueError(f"--option {item!r} must read DRAFTER.OPTION=VALUE")
    return drafter_options.read_options(items)


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
        try:
            make = _maker(target, name, options.get(name, {}))
        except (TypeError, drafters.MissingOptionError) as problem:
            failures.append(Failure(name, f"{problem}; here with --option {name}.OPTION=VALUE"))
        except (ValueError, OSError) as problem:
            failures.append(Failure(name, str(problem).split("\n")[0]))
        else:
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
    """What makes the drafter, with draft models that are loaded once. Raises what making it raises."""
    from core import drafters

    # As it is, first: a folder's tokenizer is compared with the target's, a target's is not.
    drafters.create(name, target, **options)
    shared = dict(options)
    if name in _TAKES_TARGETS:
        shared |= {key: _loaded(target, key, value) for key, value in options.items() if key in _MODELS}
    return lambda: drafters.create(name, target, **shared)


def _loaded(target: Target, key: str, named: Any) -> Any:
    """The folders of models (of `models`: commas between) as targets; anything else as it is."""
    from core import loading

    names = str(named).split(",") if key == "models" else [str(named)]
    if not all((Path(one) / "config.json").is_file() for one in names):
        return named
    dtype = next(name for name, kind in loading.DTYPES.items() if kind is target.dtype)
    models = [loading.load(one, str(target.device), dtype)[0] for one in names]
    return models if key == "models" else models[0]
