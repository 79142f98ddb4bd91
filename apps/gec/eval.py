"""`python -m apps.gec.eval`: score any correction model, always beside doing nothing.

Corrects the sentences of each set as the application would (`--raw`: as the model alone would, without the
guard that refuses lost text), then scores quality, what was preserved, and how many passes it took.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.bench.ours import forget_edits
from apps.bench.report import wide_console
from apps.gec.metrics.corpora import DEFAULT_FOLDER, EvalSet, MissingSet, load_set, set_names
from apps.gec.metrics.identity import share_equal_to_plain, share_equal_to_transformers
from apps.gec.metrics.passes import PassCounts
from apps.gec.metrics.quality import assess
from apps.gec.metrics.report import show
from apps.gec.options import CorrectorOptions
from apps.gec.results import CorrectionStats
from apps.option_groups import takes_groups
from apps.printing import hush_hub, say, told

if TYPE_CHECKING:
    from apps.gec.corrector import Corrector


@dataclass(frozen=True)
class Evaluation:
    """What to score and how."""

    data: Path = DEFAULT_FOLDER
    sets: str = "jfleg,cweb,open,clean"
    limit: int | None = None
    raw: bool = False
    check_identity: bool = False


@dataclass(frozen=True)
class Corrected:
    """One output with what it cost."""

    text: str
    stats: CorrectionStats
    refused: bool


def _corrected(corrector: Corrector, sentences: Sequence[str], raw: bool) -> list[Corrected]:
    if not raw:
        results = corrector.correct_sentences(sentences)
        return [Corrected(done.corrected, done.stats, done.warning is not None) for done in results]
    from apps.gec.rewriter import Rewriter

    rewrites = Rewriter(corrector.engine, corrector.config).rewrite(sentences)
    return [Corrected(r.output, r.stats, r.finish_reason != "stop") for r in rewrites]


def _passes(corrector: Corrector, sentences: Sequence[str], outputs: Sequence[Corrected]) -> PassCounts:
    counts = PassCounts()
    tokenizer: Any = corrector.engine.tokenizer
    for sentence, output in zip(sentences, outputs, strict=True):
        ids = [tokenizer.encode(text, add_special_tokens=False) for text in (sentence, output.text)]
        used = output.stats
        counts.add(used.forwards, used.drafted, used.accepted, *ids)
    return counts


def _evaluate_set(corrector: Corrector, corpus: EvalSet, plan: Evaluation) -> dict[str, Any]:
    forget_edits(corrector.engine)
    start = perf_counter()
    outputs = _corrected(corrector, corpus.sentences, plan.raw)
    seconds = perf_counter() - start
    counts = _passes(corrector, corpus.sentences, outputs)
    plain = theirs = None
    if plan.check_identity:
        plain = 100 * share_equal_to_plain(corrector, corpus.sentences)
        theirs = share_equal_to_transformers(corrector, corpus.sentences)
    return {
        "quality": assess(corpus, [output.text for output in outputs]).as_dict(),
        "do_nothing": assess(corpus, corpus.sentences).as_dict(),
        "work": {
            "sentences": len(outputs),
            "sentences_per_second": len(outputs) / seconds,
            "passes": counts.per_sentence,
            "bound": counts.bound,
            "ratio_to_bound": counts.ratio_to_bound,
            "tokens_per_pass": counts.tokens_per_pass,
            "accepted": 100 * counts.accepted / counts.drafted if counts.drafted else None,
            "refused": sum(output.refused for output in outputs),
            "equal_to_plain": plain,
            "equal_to_transformers": None if theirs is None else 100 * theirs,
        },
    }


def evaluate(corrector: Corrector, plan: Evaluation) -> dict[str, Any]:
    """Score the corrector on every set of the plan; a set that is not here is named and left out."""
    found: dict[str, Any] = {}
    missing: list[str] = []
    for name in set_names(plan.sets):
        try:
            corpus = load_set(name, plan.data).head(plan.limit)
        except MissingSet as error:
            say(f"{name} left out: {error}")
            missing.append(name)
            continue
        say(f"{name}: {len(corpus.sentences)} sentences")
        found[name] = _evaluate_set(corrector, corpus, plan)
    config = corrector.config
    return {
        "eval": "gec",
        "model": Path(config.model_name).name,
        "drafter": config.drafter,
        "dtype": config.dtype,
        "caution": config.caution,
        "raw": plan.raw,
        "sets": found,
        "missing": missing,
    }


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@takes_groups
def main(
    *,
    data: Annotated[Path, typer.Option(help="Folder with the evaluation sets.")] = Evaluation.data,
    sets: Annotated[str, typer.Option(help="Sets or groups, comma between.")] = Evaluation.sets,
    limit: Annotated[
        int | None, typer.Option(min=1, help="First sentences of each set only.")
    ] = Evaluation.limit,
    corrector: CorrectorOptions,
    raw: Annotated[bool, typer.Option("--raw", help="The model alone, without the guard.")] = Evaluation.raw,
    check_identity: Annotated[
        bool, typer.Option("--check-identity", help="Compare with plain decoding and with transformers.")
    ] = Evaluation.check_identity,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line instead of tables.")] = False,
) -> None:
    """Score a correction model: GLEU, edits, clean sentences changed, spans kept, passes, identity."""
    with told(ValueError):
        set_names(sets)
        config = corrector.config()
        hush_hub()
        from apps.gec.corrector import Corrector

        result = evaluate(Corrector.from_config(config), Evaluation(data, sets, limit, raw, check_identity))
        if as_json:
            print(json.dumps(result))
        elif result["sets"]:
            show(result["sets"], wide_console())
        if not result["sets"]:
            say("nothing was scored; give the folder of the evaluation sets with --data")
            raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m apps.gec.eval")
