"""Conditions on metadata, as a mapping like `{"source": "a.md", "page": {"$gte": 3}}`, turned into SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

COMPARISONS = {"$eq": "=", "$ne": "IS NOT", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
OPERATORS = (*COMPARISONS, "$in", "$nin", "$exists")
Filter = Mapping[str, Any]


def to_sql(condition: Filter) -> tuple[str, dict[str, Any]]:
    """An SQL condition over the column `metadata` and its named values.

    A key with a plain value means equality, several keys mean all of them. A value may be a mapping of
    operators: $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists. `$and`, `$or` take lists of conditions, `$not`
    one. Numbers compare with numbers and text with text; a passage without the key only meets $ne, $nin and
    `{"$exists": False}`.

    Raises:
        ValueError: an operator, key or value that is none of these.
    """
    values: dict[str, Any] = {}
    return _all(condition, values), values


def _all(condition: Filter, values: dict[str, Any]) -> str:
    if not isinstance(condition, Mapping):
        raise ValueError(f"filter {condition!r:.80} is no mapping; write it like {{'source': 'a.md'}}")
    return " AND ".join(_one(key, wanted, values) for key, wanted in condition.items()) or "1"


def _one(key: str, wanted: Any, values: dict[str, Any]) -> str:
    if key in ("$and", "$or"):
        if not isinstance(wanted, Sequence) or isinstance(wanted, str) or not wanted:
            raise ValueError(f"{key} takes a list of conditions, not {wanted!r:.80}")
        joined = f" {key[1:].upper()} ".join(f"({_all(part, values)})" for part in wanted)
        return f"({joined})"
    if key == "$not":
        return f"NOT ifnull(({_all(wanted, values)}), 0)"  # a key that is missing makes it NULL
    path = _bind(_path(key), values)
    if not isinstance(wanted, Mapping):
        wanted = {"$eq": wanted}
    return (
        "("
        + (" AND ".join(_compare(path, operator, value, values) for operator, value in wanted.items()) or "1")
        + ")"
    )


def _compare(path: str, operator: str, value: Any, values: dict[str, Any]) -> str:
    field = f"json_extract(metadata, {path})"
    if operator == "$exists":
        return f"json_type(metadata, {path}) IS {'NOT ' if value else ''}NULL"
    if operator in ("$in", "$nin"):
        if isinstance(value, str) or not isinstance(value, Sequence | set | frozenset):
            raise ValueError(f"{operator} takes a list of values, not {value!r:.80}")
        names = ", ".join(_bind(_plain(item), values) for item in value)
        return (
            f"{field} IN ({names})" if operator == "$in" else f"({field} IS NULL OR {field} NOT IN ({names}))"
        )
    if operator not in COMPARISONS:
        raise ValueError(f"filter operator {operator!r} is unknown; use one of {', '.join(OPERATORS)}")
    if value is None and operator == "$eq":
        return f"json_type(metadata, {path}) IS 'null'"
    if value is None and operator == "$ne":
        return f"json_type(metadata, {path}) IS NOT 'null'"
    name, plain = _bind(_plain(value), values), _plain(value)
    order = operator in ("$gt", "$gte", "$lt", "$lte")
    same_kind = f" AND typeof({field}) {'=' if isinstance(plain, str) else '<>'} 'text'" if order else ""
    return f"{field} {COMPARISONS[operator]} {name}{same_kind}"


def _path(key: str) -> str:
    if not isinstance(key, str) or key.startswith("$") or re.search(r'["\\\x00-\x1f]', key):
        raise ValueError(
            f"filter key {key!r} cannot be looked up; keys have no quotes, backslashes or leading $"
        )
    return f'$."{key}"'


def _plain(value: Any) -> str | int | float:
    if isinstance(value, str | int | float):
        return value
    raise ValueError(f"filter value {value!r:.80} is a {type(value).__name__}; compare with text or numbers")


def _bind(value: Any, values: dict[str, Any]) -> str:
    name = f"f{len(values)}"
    values[name] = value
    return f":{name}"
