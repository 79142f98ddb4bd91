"""`python -m apps.rag` as people run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from apps.rag.__main__ import app
from retrieval.document_index import DocumentIndex

pytest.importorskip("bm25s")
pytest.importorskip("langchain_text_splitters")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("library")
    (base / "guide.md").write_text(
        "# Guide\n\nThe budget decides how many nodes are verified.\n", encoding="utf-8"
    )
    index = DocumentIndex(base / "index", None)
    index.index([base / "guide.md"])
    index.close()
    return base / "index"


def run(*arguments: str | Path, stdin: str = "") -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def test_ask_prints_the_answer_and_json_holds_all_sources(library: Path, chat_folder: Path) -> None:
    options = ("--index", library, "--model", chat_folder, "--max-tokens", "12")
    asked = "What does the budget decide?"
    told = json.loads(run("ask", asked, *options, "--format", "json").stdout)
    assert told["question"] == asked
    assert told["sources"][0]["heading"] == "Guide"
    assert told["sources"][0]["score"] == pytest.approx(1.0)
    assert told["stats"]["output_tokens"] <= 12
    text = run("ask", asked, *options, "--stats")
    assert text.exit_code == 0
    assert text.stdout.startswith(told["answer"])
    assert "tokens per forward" in text.stderr
    plain = json.loads(run("ask", asked, *options, "--format", "json", "--drafter", "none").stdout)
    assert plain["answer"] == told["answer"]
    drafting = ("--drafter", "draft_model", "--drafter-option", f"model={chat_folder}")
    drafted = json.loads(run("ask", asked, *options, "--format", "json", *drafting).stdout)
    assert drafted["answer"] == told["answer"]


def test_ask_abstains_where_the_documents_do_not_tell(library: Path, chat_folder: Path) -> None:
    told = run(
        "ask", "Who discovered radium?", "--index", library, "--model", chat_folder, "--format", "json"
    )
    assert json.loads(told.stdout)["abstained"] is True


def test_chat_reads_lines_and_keeps_its_history(library: Path, chat_folder: Path) -> None:
    told = run(
        "chat", "--index", library, "--model", chat_folder, "--max-tokens", "8",
        stdin="What does the budget decide?\n/quit\n",
    )  # fmt: skip
    assert told.exit_code == 0
    (line,) = (library / "chat" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["question"] == "What does the budget decide?"


def test_eval_measures_a_file_of_questions(library: Path, chat_folder: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    lines = [
        {
            "question": "What does the budget decide?",
            "answers": ["how many nodes"],
            "gold": "nothing of ours",
        },
        {"question": "Who has stripes?", "answers": ["zebras"], "passages": ["Zebras have stripes."]},
    ]
    questions.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    answers = tmp_path / "answers.jsonl"
    told = run(
        "eval", questions, "--index", library, "--model", chat_folder, "--max-tokens", "8", "--format", "json",
        "--answers", answers,
    )  # fmt: skip
    scores = json.loads(told.stdout)
    assert (scores["questions"], scores["recall@5"]) == (2, 0.0)
    assert len(answers.read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ask", "Why?", "--index", "nowhere", "--model", "MODEL"), "there is no index at nowhere"),
        (("ask", "Why?", "--model", "./nowhere"), "no model at './nowhere'"),
        (("ask", "  ", "--model", "MODEL"), "the question is empty"),
        (
            ("ask", "Why?", "--model", "MODEL", "--index", "INDEX", "--drafter", "psychic"),
            "unknown drafter 'psychic'",
        ),
        (
            ("ask", "Why?", "--model", "MODEL", "--index", "INDEX", "--drafter", "draft_model"),
            "needs the option 'model'",
        ),
        (
            ("ask", "Why?", "--model", "MODEL", "--index", "INDEX", "--drafter-option", "model"),
            "the drafter option 'model' must read NAME=VALUE",
        ),
        (
            ("ask", "Why?", "--model", "MODEL", "--index", "INDEX", "--drafter-option", "wide=3"),
            "drafter 'copy' cannot be made with wide=3",
        ),
        (("ask", "caf\udce9", "--model", "MODEL", "--index", "INDEX"), "the question is not UTF-8"),
        (("ask", "Why?", "--model", "MODEL", "--index", "INDEX", "--k", "0"), "k=0"),
        (("index", "README.md", "--index", "NEW", "--chunk-tokens", "7"), "--chunk-tokens 7 is too few"),
        (("chat", "--model", "MODEL", "--index", "INDEX", "--follow-ups", "guess"), "'guess' is not a way"),
        (("index", "nowhere.txt", "--index", "NEW"), "does not exist"),
        (("eval", "nowhere.jsonl", "--model", "MODEL"), "cannot be read"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    arguments: tuple[str, ...], words: str, library: Path, chat_folder: Path, tmp_path: Path
) -> None:
    names = {"MODEL": str(chat_folder), "INDEX": str(library), "NEW": str(tmp_path / "new")}
    told = run(*(names.get(argument, argument) for argument in arguments))
    assert told.exit_code == 2
    assert words in told.stderr
    assert "Traceback" not in told.stderr
    assert told.stdout == ""


def test_a_wrong_line_of_questions_is_named(library: Path, chat_folder: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "Why?", "answers": []}\n{"question": 3}\n', encoding="utf-8")
    told = run("eval", questions, "--index", library, "--model", chat_folder)
    assert told.exit_code == 2
    assert "questions.jsonl, line 2" in told.stderr


def test_help_and_a_wrong_path_load_no_model_library() -> None:
    code = "import sys, apps.rag.__main__, apps.rag.prompts; print(*({'torch', 'langchain_core'} & set(sys.modules)))"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ
    )
    assert told.stdout.split() == []
