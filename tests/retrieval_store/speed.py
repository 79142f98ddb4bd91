"""Measures what the store costs; `python -m tests.retrieval_store.speed [--passages N] [--dimension D]`.

Indexing is reported in seconds of the process, wall and CPU. One query and sixteen take turns in this process and
are compared by their CPU time and by the wall clock; on a shared machine the medians of the ratio count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import faiss
import numpy as np

from retrieval import FaissStore


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def index(passages: int, dimension: int) -> tuple[float, float]:
    matrix = np.random.default_rng(0).standard_normal((passages, dimension)).astype(np.float32)
    texts = [f"passage {i} " + "of some words " * 30 for i in range(passages)]
    metadatas = [{"source": f"{i // 50}.md", "start": i} for i in range(passages)]
    with tempfile.TemporaryDirectory() as folder:
        store = FaissStore(None, folder)
        spent = timed(lambda: store.add_vectors(texts, metadatas, matrix))
        print(f"{passages:,} passages indexed: wall {spent[0]:.1f} s, CPU {spent[1]:.1f} s", file=sys.stderr)
        store.close()
        opened = timed(lambda: FaissStore(None, folder))
        print(f"opened and checked: wall {opened[0]:.1f} s, CPU {opened[1]:.1f} s", file=sys.stderr)
    return spent


def search(passages: int, dimension: int, rounds: int) -> dict[str, float]:
    random = np.random.default_rng(1)
    matrix = random.standard_normal((passages, dimension)).astype(np.float32)
    queries = random.standard_normal((16, dimension)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        store = FaissStore(None, folder, durable=False)
        store.add_vectors([str(i) for i in range(passages)], None, matrix)
        store.search_vectors(queries)
        pairs = [
            (timed(lambda: store.search_vectors(queries[:1])), timed(lambda: store.search_vectors(queries)))
            for _ in range(rounds)
        ]
        store.close()
    one, sixteen = (min(pair[i][1] for pair in pairs) for i in (0, 1))
    found = {
        "one_ms": 1e3 * one,
        "sixteen_ms": 1e3 * sixteen,
        "ratio_cpu": statistics.median(pair[1][1] / pair[0][1] for pair in pairs),
        "ratio_wall": statistics.median(pair[1][0] / pair[0][0] for pair in pairs),
    }
    print(f"search over {passages:,} x {dimension}: {found}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--searched", type=int, default=200_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    wall, cpu = index(options.passages, options.dimension)
    found = search(options.searched, options.dimension, options.rounds)
    where = {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "faiss": faiss.__version__,
    }
    print(json.dumps({"index_wall_s": wall, "index_cpu_s": cpu, **found, **where}))


if __name__ == "__main__":
    main()
