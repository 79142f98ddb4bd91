"""Run a job over many rows with the stub corrector, print its time and peak memory.

`python tests/gec_batch/million.py IN OUT ROWS`, with the repository on PYTHONPATH: makes IN if it is missing (any
format that the job reads) and ends in a line `ROWS rows SECONDS s PEAK MiB`.
"""

import csv
import gzip
import json
import os
import resource
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TextIO

from batch_stub import StubCorrector, sample_lines

from apps.gec.batch import JobConfig, run_job


def make(path: Path, num_rows: int) -> None:
    """Write the sample lines in the format that the name says."""
    if path.suffix == ".parquet":
        make_parquet(path, num_rows)
        return
    with gzip.open(path, "wt", 1, newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        write_lines(file, path.name, num_rows)


def write_lines(file: TextIO, name: str, num_rows: int) -> None:
    lines = sample_lines(num_rows)
    if ".csv" in name:
        csv.writer(file).writerows([["id", "text"]])
        csv.writer(file).writerows(enumerate(lines))
        return
    for number, line in enumerate(lines):
        file.write((json.dumps({"id": number, "text": line}) if ".jsonl" in name else line) + "\n")


def make_parquet(path: Path, num_rows: int) -> None:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([("id", pyarrow.int64()), ("text", pyarrow.string())])
    rows = enumerate(sample_lines(num_rows))
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(rows, 50_000)):
            writer.write_table(
                pyarrow.table([list(column) for column in zip(*group, strict=True)], schema=schema)
            )


def in_child(path: Path, num_rows: int) -> None:
    """Make the file in another process: its memory is not the job's."""
    child = os.fork()
    if child == 0:
        try:
            make(path, num_rows)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, f"{path} could not be made"


if __name__ == "__main__":
    source, output, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    if not source.exists():
        in_child(source, count)
    stub = StubCorrector()
    stub.keeps_batches = False
    start = time.monotonic()
    report = run_job(JobConfig(source, output), stub)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    assert report.rows == count
    print(f"{report.rows} rows {time.monotonic() - start:.1f} s {peak:.1f} MiB")
