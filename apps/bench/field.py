"""The contestants at the start: every setting loaded in a process of its own, the fastest kept.

Knows workers and trials. Does not know figures. Workers of one contestant load at the same time, since loading is
not timed; from then on one worker at most is at work.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from apps.bench.contestants import Contestant, Setting
from apps.bench.timing import Choice, Entrant, Failure, RunFailed, choose
from apps.bench.worker import Job, Load
from apps.bench.worker_process import WorkerProcess

_TRIAL_SENTENCES = 8  # for single sentences; in batches, two full ones, so that two workers have one each


@dataclass(frozen=True)
class Slot:
    """One table: a set of texts in one mode, "single" or "batch"."""

    name: str
    mode: str
    rows: int
    texts: list[str]

    @property
    def key(self) -> str:
        """Words that name it."""
        return f"{self.name} {self.mode}"

    @property
    def trial(self) -> list[str]:
        """The texts on which settings are chosen."""
        return self.texts[: _TRIAL_SENTENCES if self.rows == 1 else 2 * self.rows]


@dataclass
class Admitted:
    """A contestant that can run: its living workers by setting, its choice and its failure by slot."""

    name: str
    workers: dict[str, WorkerProcess]
    choices: dict[str, Choice] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)

    def entrant(self, slot: Slot, rounds: int) -> Entrant:
        """The contestant as it takes part in this slot."""
        setting = self.choices[slot.key].setting
        return Entrant(self.name, setting, self.workers[setting], rounds)


def admit(
    contestant: Contestant, settings: Sequence[Setting], job: Job, slots: Sequence[Slot], stack: ExitStack
) -> tuple[Admitted, list[Failure]]:
    """Load a contestant at every setting, choose one for each slot, end the workers that no slot chose.

    The stack ends the others. Settings that cannot be loaded are returned as failures.
    """
    workers, failures = _load(contestant, settings, job, stack)
    admitted = Admitted(contestant.name, workers)
    modes = {setting.label: setting.modes for setting in settings}
    for slot in slots:
        racers = {label: worker for label, worker in workers.items() if slot.mode in modes[label]}
        if not racers:
            continue
        try:
            admitted.choices[slot.key] = choose(racers, slot.trial, slot.rows)
        except RunFailed as failed:
            admitted.failures[slot.key] = Failure(contestant.name, str(failed))
    chosen = {choice.setting for choice in admitted.choices.values()}
    for label in workers.keys() - chosen:
        workers.pop(label).close()
    return admitted, failures


def _load(
    contestant: Contestant, settings: Sequence[Setting], job: Job, stack: ExitStack
) -> tuple[dict[str, WorkerProcess], list[Failure]]:
    """The workers that could load, by setting, and why the others could not."""
    loading = {
        setting.label: stack.enter_context(
            WorkerProcess(
                Load(contestant.kind, job, setting.threads, {**contestant.options, **setting.options})
            )
        )
        for setting in settings
    }
    loaded, failures = {}, []
    for label, worker in loading.items():
        try:
            worker.wait()
        except RunFailed as failed:
            failures.append(Failure(f"{contestant.name}, {label}", str(failed)))
            worker.close()
        else:
            loaded[label] = worker
    return loaded, failures
