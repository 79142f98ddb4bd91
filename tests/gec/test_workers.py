"""Worker processes: every text once, whatever dies, fails or is interrupted, and nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.gec.refusals import Refusal
from apps.gec.workers import ProcessPool, WorkerDied, WorkerError
from apps.gec.workers.deck import Deck
from apps.gec.workers.machine import available_memory, physical_cores, resident_memory
from apps.gec.workers.process import environment
from apps.gec.workers.wire import line, parsed

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TASK = "worker_stub:load"
WORDS = [f"word {number} " * (number % 7) for number in range(60)]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ProcessPool]]:
    """Makes pools of the stub, and closes them."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    made: list[ProcessPool] = []

    def make(
        workers: int | None = 1, task: str = TASK, *, eager: bool = False, **options: Any
    ) -> ProcessPool:
        made.append(ProcessPool(task, options, workers, smallest=20, largest=200, eager=eager))
        return made[-1]

    yield make
    for one in made:
        one.close()


def values(pool: ProcessPool, texts: list[str]) -> list[Any]:
    found: dict[int, Any] = {}
    for unit, results in pool.run(texts):
        assert not found.keys() & set(unit)
        found.update(zip(unit, results, strict=True))
    return [found[index] for index in range(len(texts))]


def is_gone(pid: int) -> bool:
    """Whether the process ended: neither running nor a zombie. Waits a little for one that is about to."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


# -- dealing -----------------------------------------------------------------------------------------


@given(
    lengths=st.lists(st.integers(0, 300), max_size=80),
    smallest=st.integers(1, 50),
    factor=st.integers(1, 9),
    num_workers=st.integers(1, 5),
)
def test_every_text_is_dealt_once_the_longest_first(
    lengths: list[int], smallest: int, factor: int, num_workers: int
) -> None:
    deck = Deck(["x" * length for length in lengths], smallest, smallest * factor)
    dealt: list[int] = []
    while unit := deck.deal(num_workers):
        # A unit is full without its last text.
        assert sum(1 + lengths[i] for i in unit[:-1]) < smallest * factor
        dealt += unit
    assert sorted(dealt) == list(range(len(lengths)))
    assert [lengths[i] for i in dealt] == sorted(lengths, reverse=True)
    assert deck.chars_left == 0


def test_units_become_smaller_towards_the_end_and_one_worker_gets_large_ones() -> None:
    texts = ["x" * 9] * 100
    shared, alone = Deck(texts, 50, 300), Deck(texts, 50, 300)
    assert [len(shared.deal(2)) for _ in range(9)] == [25, 19, 14, 11, 8, 6, 5, 5, 5]
    assert [len(alone.deal(1)) for _ in range(5)] == [30, 30, 30, 10, 0]


# -- the pool ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_each_text_gets_its_own_value_whatever_the_number_of_workers(
    workers: int, pool: Callable[..., ProcessPool]
) -> None:
    subject = pool(workers, eager=True)
    found = values(subject, WORDS)
    assert [value for value, _, _ in found] == [word.upper() + "!" for word in WORDS]
    assert {threads for _, _, threads in found} == {1}
    assert len(subject.pids) == workers
    assert values(subject, []) == []


def test_a_small_job_pays_for_no_second_process_and_a_long_one_has_it(
    pool: Callable[..., ProcessPool],
) -> None:
    subject = pool(2, seconds=0.01)
    values(subject, WORDS[:4])
    assert len(subject.pids) == 1
    found = values(subject, WORDS * 5)
    assert len({pid for _, pid, _ in found}) == 2


def test_a_worker_that_is_still_loading_holds_nobody_up(pool: Callable[..., ProcessPool]) -> None:
    subject = pool(1)
    subject.limit = 2
    subject._start_up_to(2)
    assert len({pid for _, pid, _ in values(subject, WORDS[:1])}) == 1
    subject.tell("use_mark", "?")
    assert {value[-1] for value, _, _ in values(subject, WORDS)} == {"?"}


def test_auto_is_one_worker_with_all_cores_on_a_gpu_or_where_memory_is_short(
    pool: Callable[..., ProcessPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.gec.workers.pool.physical_cores", lambda: 6)
    monkeypatch.setattr("apps.gec.workers.pool.available_memory", lambda: 3 << 30)
    assert pool(None, memory=1).limit == 6
    assert pool(None, memory=1 << 30).limit == 3
    assert pool(None, device="cuda").limit == 1
    crowded = pool(None, memory=3 << 30)
    assert crowded.limit == 1
    assert [threads for _, _, threads in values(crowded, ["a"])] == [6]


def test_no_workers_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="workers=0 must be at least 1, or 'auto'"):
        ProcessPool(TASK, {}, 0)


def test_an_error_of_loading_is_raised_as_it_was(pool: Callable[..., ProcessPool]) -> None:
    with pytest.raises(ValueError, match=r"^there is no such model; give another$"):
        pool(2, "worker_stub:load_nothing")
    with pytest.raises(ImportError, match="no_such_module"):
        pool(2, "no_such_module:load")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_worker_comes_with_the_text_that_caused_it(
    workers: int, pool: Callable[..., ProcessPool]
) -> None:
    subject = pool(workers, eager=True)
    with pytest.raises(WorkerError, match="in a worker: RuntimeError: no room") as caught:
        values(subject, [*WORDS[:17], "FAIL", *WORDS])
    assert caught.value.index == 17
    assert values(subject, ["a"])[0][0] == "A!"


def test_a_worker_that_is_killed_is_told_with_its_signal_and_replaced(
    pool: Callable[..., ProcessPool],
) -> None:
    subject = pool(2, eager=True)
    pids = subject.pids
    with pytest.raises(
        WorkerDied, match=r"process \d+ was killed by SIGKILL; .*memory.* at work on \d+ texts"
    ):
        values(subject, [*WORDS, "DIE"])
    assert values(subject, ["a"])[0][0] == "A!"
    subject.close()
    assert all(is_gone(pid) for pid in pids)


def test_a_caller_who_leaves_early_leaves_a_pool_that_works(pool: Callable[..., ProcessPool]) -> None:
    subject = pool(2, eager=True)
    run = subject.run([*["a" * 30] * 3, "SLEEP"])
    next(run)
    run.close()
    assert values(subject, ["b"])[0][0] == "B!"


def test_closing_ends_a_worker_in_the_middle_of_its_work_and_may_be_done_twice(
    pool: Callable[..., ProcessPool],
) -> None:
    subject = pool(2, eager=True)
    pids = subject.pids
    subject._workers[0].ask("correct", ["SLEEP"])
    subject.close()
    subject.close()
    assert all(is_gone(pid) for pid in pids)
    with pytest.raises(RuntimeError, match=r"the pool is closed, .* make a new one"):
        values(subject, ["a"])


def test_a_pool_that_is_forgotten_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    pids = ProcessPool(TASK, {}, 1).pids
    assert all(is_gone(pid) for pid in pids)


SCRIPT = """
import signal, sys
# A runner in the background may have set the signal to be ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
from apps.gec.workers import ProcessPool
pool = ProcessPool("worker_stub:load", {}, 2, eager=True)
print(*pool.pids, flush=True)
list(pool.run(["SLEEP"]))
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_parent_ends_the_workers(sent: signal.Signals) -> None:
    path = os.pathsep.join([str(ROOT), str(HERE)])
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as parent:  # fmt: skip
        assert parent.stdout
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(sent)
        assert parent.wait(30) != 0
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)


# -- pipes and machines ------------------------------------------------------------------------------


@given(text=st.text(alphabet=st.characters()))
def test_any_text_passes_through_the_pipe_on_one_line(text: str) -> None:
    text += "\ud83d\ude00\ud800\n\u2028"  # two halves that must not become one character
    sent = line({"texts": [text]})
    assert sent.count(b"\n") == 1
    assert parsed(sent) == {"texts": [text]}


def test_workers_have_their_own_threads_and_idle_ones_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert environment(2)["OMP_NUM_THREADS"] == "2"
    assert environment(2)["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert environment(1)["OMP_WAIT_POLICY"] == "ACTIVE"


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_hyper_threads_count_once_and_a_container_gets_its_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4, 5}, raising=False)
    core = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    root = machine(tmp_path, {core.format(cpu): f"{cpu % 3},{cpu % 3 + 3}" for cpu in range(6)})
    assert physical_cores(root) == 3
    assert physical_cores(machine(root, {"sys/fs/cgroup/cpu.max": "max 100000"})) == 3
    assert physical_cores(machine(root, {"sys/fs/cgroup/cpu.max": "250000 100000"})) == 2
    assert physical_cores(machine(root, {"sys/fs/cgroup/cpu.max": "50000 100000"})) == 1


def test_memory_is_what_the_system_has_or_the_container_may_still_take(tmp_path: Path) -> None:
    root = machine(tmp_path, {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n"})
    assert available_memory(root) == 5000 * 1024
    limits = {"sys/fs/cgroup/memory.max": "4096000\n", "sys/fs/cgroup/memory.current": "1024000\n"}
    assert available_memory(machine(root, limits)) == 3072000
    assert available_memory(machine(root, {"sys/fs/cgroup/memory.max": "max"})) == 5000 * 1024
    assert available_memory(tmp_path / "another system") > 1 << 28


def test_a_process_knows_about_how_much_memory_it_holds(tmp_path: Path) -> None:
    assert resident_memory() > 1 << 20
    assert resident_memory(tmp_path / "another system") > 1000


# -- corrections -------------------------------------------------------------------------------------


def test_a_pool_of_correctors_gives_what_one_corrector_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    from gec_fakes import RuleEngine, plain_errors

    from apps.gec import Corrector, CorrectorPool
    from apps.gec.workers.correcting import unpacked

    texts = ["She go to school. Fine.", "", "\n\n", "It is alot.", "I go \ud800 out"] * 7
    corrector = Corrector("org/fake", engine=RuleEngine(plain_errors))  # type: ignore[arg-type]
    expected = corrector.correct_batch(texts)
    monkeypatch.setattr("apps.gec.corrector_pool.TASK", "worker_stub:load_fakes")
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    with CorrectorPool(1, model="org/fake") as pool:
        assert pool.correct_batch(texts) == expected
        assert list(pool.correct_many(iter(texts))) == expected
        assert pool.correct("I go out.").text == "I went out."
        assert pool.stats.sentences == 2 * corrector.stats.sentences + 1
        assert pool.stats.forwards == 2 * corrector.stats.forwards + 1
        assert [c.stats.forwards for c in pool.correct_batch(texts)] == [c.stats.forwards for c in expected]
    assert unpacked("a", "too long") == Refusal("too long")
