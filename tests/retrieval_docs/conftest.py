"""What the tests of loading, embedding and indexing share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tiny_encoder and other helpers, beside the tests

from tiny_encoder import write_encoder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(
        tmp_path_factory.mktemp("models") / "tiny", pooling={"pooling_mode_mean_tokens": True}
    )
