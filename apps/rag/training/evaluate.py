"""Scores of a chat model on the held split: `python -m apps.rag.training.evaluate MODEL`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from apps.places import SHARED_DATA
from apps.printing import told
from apps.rag.prompts import answer_messages, citations, is_abstention
from apps.rag.scoring import contains, without_citations

from .held_questions import HeldQuestion, held_questions
from .qa_sets import HELD_SPLIT
from .word_count import answers_by_words

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def _share(hits: int, count: int) -> float | None:
    return round(100 * hits / count, 1) if count else None


def score(questions: Sequence[HeldQuestion], answers: Sequence[str]) -> dict[str, Any]:
    """Percentages: right sentence, answered, abstained by kind, citation right among right ones, word for word."""
    pairs = list(zip(questions, answers, strict=True))
    asked = [(q, a) for q, a in pairs if q.kind == "answerable"]
    answered = [(q, a) for q, a in asked if not is_abstention(a)]
    right = [(q, a) for q, a in answered if contains(without_citations(a), q.answers)]
    cited = [(q, a) for q, a in right if citations(a, len(q.passages))[:1] == [q.gold]]
    said = [(q, a) for q, a in pairs if not is_abstention(a)]
    # An empty answer quotes nothing, though it stands in every text.
    quotes = [(q, without_citations(a)) for q, a in said]
    copied = [(q, quote) for q, quote in quotes if quote and any(quote in p.text for p in q.passages)]
    out: dict[str, Any] = {
        "split": HELD_SPLIT,
        "questions": len(pairs),
        "answerable": len(asked),
        "right sentence": _share(len(right), len(asked)),
        "answered": _share(len(answered), len(asked)),
        "right where answered": _share(len(right), len(answered)),
        "citation right where right": _share(len(cited), len(right)),
        "quoted word for word": _share(len(copied), len(said)),
    }
    for kind in ("removed", "impossible"):
        silent = [a for q, a in pairs if q.kind == kind]
        out[f"abstained, {kind}"] = _share(sum(map(is_abstention, silent)), len(silent))
    none = [a for q, a in pairs if not q.gold]
    out["abstained, all unanswerable"] = _share(sum(map(is_abstention, none)), len(none))
    return out


def answer_all(model: str, questions: Sequence[HeldQuestion], device: str, drafter: str) -> list[str]:
    """A greedy answer to each question."""
    from core import Engine, Request, SamplingParams

    engine = Engine.from_pretrained(model, drafter=drafter, device=device)
    requests = []
    for held in questions:
        messages = answer_messages(held.question, held.passages)
        prompt = engine.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        requests.append(Request(prompt, sources=tuple(p.text for p in held.passages)))
    return [c.text for c in engine.generate(requests, SamplingParams(max_new_tokens=120))]


@app.command()
def main(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="Folder or hub id of a chat model.")
    ] = "data/models/chat-small",
    data: Annotated[
        Path, typer.Option(help="Folder with qa/.", show_default="../shared/data, beside this")
    ] = SHARED_DATA,
    count: Annotated[int, typer.Option(help="How many questions; half of them can be answered.")] = 400,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    drafter: Annotated[
        str, typer.Option(help="As for the engine; the answers are the same with each.")
    ] = "copy",
    threads: Annotated[int, typer.Option(help="CPU threads (0: as torch chooses).")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write each question with its answer here (JSONL).")
    ] = None,
) -> None:
    """Ask the held questions and print the scores as one line of JSON."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    with told(ValueError, OSError):
        questions = held_questions(data, count)
        answers = answer_all(model, questions, device, drafter)
        if out is not None:
            with out.open("w", encoding="utf-8") as rows:
                for held, answer in zip(questions, answers, strict=True):
                    row = {"kind": held.kind, "question": held.question, "gold": held.gold, "answer": answer}
                    rows.write(json.dumps(row | {"answers": held.answers}, ensure_ascii=False) + "\n")
        scores = score(questions, answers)
        plain = score(questions, answers_by_words(questions))
        scores["right sentence, words counted"] = plain["right sentence"]
        print(json.dumps(scores))


if __name__ == "__main__":
    app()
