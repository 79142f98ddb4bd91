"""The memory of a job does not grow with its input."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("million.py")


def peak_mib(tmp_path: Path, name: str, num_rows: int) -> float:
    source = tmp_path / f"{num_rows}-{name}"
    command = [sys.executable, DRIVER, source, source.with_name(f"out-{source.name}"), str(num_rows)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(finished.stdout.split()[-2])


@pytest.mark.parametrize("name", ["in.txt", "in.csv.gz"])
def test_ten_times_the_rows_need_the_same_memory(name: str, tmp_path: Path) -> None:
    pytest.importorskip("resource")
    small, large = (peak_mib(tmp_path, name, num_rows) for num_rows in (20_000, 200_000))
    assert large - small < 4, f"{small} MiB for 20,000 rows and {large} MiB for 200,000"
