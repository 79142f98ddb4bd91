"""`python -m apps.bench gec`: grammar correction against other runtimes on the same weights.

Every contestant corrects the same sentences, tokenisation and detokenisation included, one sentence at a
time and then the whole set with at most 32 rows at once, taking turns with the others in every round. A
figure is the median over the rounds of the time for the whole set, divided by its sentences. Each contestant
runs with the setting (threads, workers, batch) that was fastest for it on the first sentences. Our engine
forgets its memory of edits before every round: what it learns within a round is the method's own gain, what
it would know from the last round is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.bench.report import hardware, publish, say
from apps.bench.timing import MIN_ROUNDS, Contestant, Failure, Output, Runner, Timing, race
from apps.gec.metrics.corpora import DEFAULT_FOLDER, SAMPLES, MissingSet, load_set, sample_sentences
from apps.gec.metrics.passes import novel_tokens

if TYPE_CHECKING:
    from apps.bench.ours import EngineRunner
    from apps.bench.peers import CTranslate2Model, TransformersPeer

BASELINE = "transformers greedy float32"
SETS = ("jfleg", "cweb_g")
OURS: dict[str, dict[str, Any]] = {
    "echodraft copy float32": {"drafter": "copy", "dtype": "float32"},
    "echodraft copy bfloat16": {"drafter": "copy", "dtype": "bfloat16"},
    "echodraft copy int8": {"drafter": "copy", "dtype": "int8"},
    "echodraft prompt_lookup float32": {"drafter": "prompt_lookup", "dtype": "float32"},
    "echodraft none float32": {"drafter": "none", "dtype": "float32"},
}
# (workers, threads each, rows per batch); two workers want batches small enough for both to have some.
_CTRANSLATE2_SINGLE = ((1, 1, None), (1, 2, None))
_CTRANSLATE2_BATCH = ((2, 1, 16), (2, 1, 32), (1, 2, 32))


@dataclass(frozen=True)
class GecBench:
    """What to measure. `threads` are torch's to choose from; `only` keeps contestants whose name holds one of
    its words, and the baseline."""

    model: Path = Path("data/models/gec-small")
    data: Path = DEFAULT_FOLDER
    limit: int = 150
    rounds: int = MIN_ROUNDS
    rows: int = 32
    max_new_tokens: int = 128
    threads: tuple[int, ...] = (1, 2)
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        for name in ("limit", "rounds", "rows", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    def wants(self, name: str) -> bool:
        """Whether this contestant takes part."""
        return name == BASELINE or not self.only or any(word in name for word in self.only)


@dataclass(frozen=True)
class Field:
    """Everyone who takes part, and what is needed to judge them."""

    baseline: TransformersPeer
    ours: dict[str, EngineRunner]
    peers: dict[str, TransformersPeer]
    ctranslate2: CTranslate2Model | None
    failures: list[Failure]

    def contestants(self, bench: GecBench, rows: int) -> list[Contestant]:
        """The contestants for one sentence at a time (rows 1) or for batches."""
        from apps.bench.peers import with_threads

        entries = []
        for name, runner in (self.peers | self.ours).items():
            variants = {f"{n} threads": with_threads(n, runner) for n in bench.threads}
            entries.append(Contestant(name, variants))
        for compute_type in ("float32", "int8") if self.ctranslate2 else ():
            name = f"CTranslate2 {compute_type}"
            if bench.wants(name) and self.ctranslate2:
                entries.append(_ctranslate2_entry(name, self.ctranslate2, compute_type, rows))
        return entries


def _ctranslate2_entry(name: str, model: CTranslate2Model, compute_type: str, rows: int) -> Contestant:
    settings = _CTRANSLATE2_SINGLE if rows == 1 else _CTRANSLATE2_BATCH
    return Contestant(
        name,
        {
            f"{workers} x {threads} threads{f', {batch} rows' if batch else ''}": model.runner(
                compute_type, workers, threads, batch
            )
            for workers, threads, batch in settings
        },
    )


def _peers(bench: GecBench) -> dict[str, TransformersPeer]:
    import torch

    from apps.bench.peers import PROMPT_LOOKUP_TOKENS, TransformersPeer

    load = partial(TransformersPeer, bench.model, max_new_tokens=bench.max_new_tokens)
    makers = {
        BASELINE: partial(load, dtype=torch.float32),
        "transformers greedy bfloat16": partial(load, dtype=torch.bfloat16),
        "transformers prompt lookup float32": partial(
            load, dtype=torch.float32, prompt_lookup_tokens=PROMPT_LOOKUP_TOKENS
        ),
    }
    return {name: make() for name, make in makers.items() if bench.wants(name)}


def _ours(bench: GecBench, special_ids: set[int]) -> tuple[dict[str, EngineRunner], list[Failure]]:
    """Our entries; a type that this build does not offer is reported with the reason."""
    from apps.bench.ours import EngineRunner

    runners, failures = {}, []
    for name, options in OURS.items():
        if not bench.wants(name):
            continue
        try:
            runner = EngineRunner(bench.model, bench.max_new_tokens, bench.rows, **options)
        except (ImportError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            failures.append(Failure(name, f"{type(error).__name__}: {error}".split("\n")[0]))
            continue
        runners[name] = runner.leave_out(special_ids)
    return runners, failures


def _assemble(bench: GecBench, stack: ExitStack) -> Field:
    """Load every runtime. CTranslate2's conversion lives as long as the stack."""
    from apps.bench.peers import CTranslate2Model

    peers = _peers(bench)
    ours, failures = _ours(bench, peers[BASELINE].special_ids)
    ctranslate2 = None
    if bench.wants("CTranslate2 float32") or bench.wants("CTranslate2 int8"):
        try:
            ctranslate2 = stack.enter_context(CTranslate2Model(bench.model, bench.max_new_tokens))
        except (ImportError, ValueError, RuntimeError, AttributeError) as error:
            failures.append(Failure("CTranslate2", f"{type(error).__name__}: {error}".split("\n")[0]))
    return Field(peers[BASELINE], ours, peers, ctranslate2, failures)


def _texts(bench: GecBench) -> dict[str, list[str]]:
    """The sentences by set; the samples that ship where the evaluation sets are absent."""
    try:
        return {name: load_set(name, bench.data).head(bench.limit).sentences for name in SETS}
    except MissingSet as missing:
        say(f"{missing}; measuring on the samples in {SAMPLES.name} instead")
    return {"samples": sample_sentences()[: bench.limit]}


def _agreement(outputs: Sequence[Output], reference: Sequence[Output]) -> float:
    """Share of the texts whose tokens equal the reference's."""
    return fmean(ours.token_ids == theirs.token_ids for ours, theirs in zip(outputs, reference, strict=True))


def _row(timing: Timing, reference: Sequence[Output], best: dict[str, float | None]) -> dict[str, Any]:
    """One contestant's figures."""
    passes = [output.passes for output in timing.outputs if output.passes is not None]
    return {
        "name": timing.name,
        "setting": timing.setting,
        "ms": timing.ms_per_text,
        "rounds_ms": [1000.0 * seconds / len(timing.outputs) for seconds in timing.seconds],
        **{f"times_{rival}": ms / timing.ms_per_text if ms else None for rival, ms in best.items()},
        "identical": _agreement(timing.outputs, reference),
        "passes": fmean(passes) if passes else None,
    }


def _phases(engine: EngineRunner, runner: Runner, texts: Sequence[str], rows: int) -> dict[str, float]:
    """Milliseconds per text that each phase of our loop takes, from one more run at the chosen setting."""
    before = engine.phase_seconds()
    runner(texts, rows)
    after = engine.phase_seconds()
    return {phase: 1000.0 * (after[phase] - before[phase]) / len(texts) for phase in after}


def measure(bench: GecBench, field: Field, texts: list[str], rows: int) -> dict[str, Any]:
    """Race everyone over one set in one mode."""
    contestants = field.contestants(bench, rows)
    timings, failures = race(contestants, texts, rows, bench.rounds, on_progress=say)
    by_name = {timing.name: timing for timing in timings}
    runners = {contestant.name: contestant.variants for contestant in contestants}
    reference = by_name[BASELINE].outputs
    rivals = [t.ms_per_text for t in timings if t.name.startswith("CTranslate2")]
    best = {"transformers": by_name[BASELINE].ms_per_text, "ctranslate2": min(rivals) if rivals else None}
    sources = [field.baseline.source_ids(text) for text in texts]
    reachable = [1 + novel_tokens(ids, out.token_ids) for ids, out in zip(sources, reference, strict=True)]
    return {
        "rows": rows,
        "passes_of_perfect_copying": fmean(reachable),
        "entries": [_row(timing, reference, best) for timing in timings],
        "failures": [asdict(failure) for failure in failures],
        "phases_ms": {
            timing.name: _phases(field.ours[timing.name], runners[timing.name][timing.setting], texts, rows)
            for timing in timings
            if timing.name in field.ours
        },
    }


def run(bench: GecBench) -> dict[str, Any]:
    """Measure every set, single sentences and batches; return what the JSON line holds."""
    texts = _texts(bench)
    with ExitStack() as stack:
        field = _assemble(bench, stack)
        sets = {
            name: {
                "sentences": len(sentences),
                "single": measure(bench, field, sentences, 1),
                "batch": measure(bench, field, sentences, bench.rows),
            }
            for name, sentences in texts.items()
        }
    return {
        "bench": "gec",
        "hardware": hardware(),
        "model": bench.model.name,
        "settings": {k: getattr(bench, k) for k in ("limit", "rounds", "rows", "max_new_tokens")},
        "sets": sets,
        "failures": [asdict(failure) for failure in field.failures],
    }


def main(
    model: Annotated[
        Path, typer.Option(help="Folder of an encoder-decoder correction model.")
    ] = GecBench.model,
    data: Annotated[
        Path, typer.Option(help="Folder that holds eval/jfleg_dev and eval/cweb_dev.")
    ] = GecBench.data,
    limit: Annotated[int, typer.Option(help="Sentences of each set.")] = GecBench.limit,
    rounds: Annotated[int, typer.Option(help="Timed rounds; figures are medians.")] = GecBench.rounds,
    rows: Annotated[int, typer.Option(help="Rows at once in the batch mode.")] = GecBench.rows,
    max_new_tokens: Annotated[
        int, typer.Option(help="Longest output, alike for all.")
    ] = GecBench.max_new_tokens,
    threads: Annotated[str, typer.Option(help="Thread counts of torch to choose from.")] = "1,2",
    only: Annotated[str, typer.Option(help="Contestants by words of their names, comma between.")] = "",
    out: Annotated[Path | None, typer.Option(help="Also write the result to this file.")] = None,
) -> None:
    """Race grammar correction against transformers and CTranslate2, the same weights, in one run."""
    from apps.bench.gec_table import show

    words = tuple(word.strip() for word in only.split(",") if word.strip())
    counts = tuple(int(count) for count in threads.split(","))
    result = run(GecBench(model, data, limit, rounds, rows, max_new_tokens, counts, words))
    show(result)
    publish(result, out)
