"""Imports run one way, errors are caught by name, and nothing is ever unpickled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FORBIDDEN = {
    "core": {"apps", "retrieval", "langchain", "langchain_core", "langchain_community", "faiss", "typer"},
    "retrieval": {"apps", "core"},
    "apps": set(),
}


def nodes(folder: str) -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path.relative_to(ROOT), node


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    return [(node.module or "").split(".")[0]] if isinstance(node, ast.ImportFrom) and not node.level else []


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_run_one_way_and_never_unpickle(folder: str) -> None:
    banned = FORBIDDEN[folder] | {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve"}
    assert not [(path, name) for path, node in nodes(folder) for name in imported(node) if name in banned]


@pytest.mark.parametrize("folder", ["core", "retrieval"])
def test_errors_are_caught_by_name(folder: str) -> None:
    broad = {None, "Exception", "BaseException"}
    for path, node in nodes(folder):
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names = {None if kind is None else ast.unparse(kind).rpartition(".")[2] for kind in kinds}
            assert not names & broad, f"{path}:{node.lineno} catches everything"


def test_checkpoints_are_read_as_tensors_only() -> None:
    for folder in FORBIDDEN:
        for path, node in nodes(folder):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                options = {k.arg: ast.unparse(k.value) for k in node.keywords}
                assert options.get("weights_only") == "True", f"{path}:{node.lineno} may unpickle"
