"""What the tests of batch jobs share: the stub corrector and a run with it.

Puts this folder on the path, because the stub is also imported by processes that pytest does not start.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from batch_stub import StubCorrector

from apps.gec.batch import JobConfig, Report, run_job


@pytest.fixture
def correct(tmp_path: Path) -> Callable[..., tuple[Report, Path]]:
    """`correct("in.txt", content, "out.txt", **settings)`: run a job over bytes, return report and OUT."""

    def run(name: str, content: bytes, output: str, **settings: object) -> tuple[Report, Path]:
        source = tmp_path / name
        source.write_bytes(content)
        config = JobConfig(source, tmp_path / output, **settings)  # type: ignore[arg-type]
        return run_job(config, StubCorrector()), config.output

    return run
