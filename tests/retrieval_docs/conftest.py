"""What the tests of loading, embedding and indexing share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tiny_encoder and other helpers, beside the tests


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_encoder import write_encoder  # imports torch, which few of these tests need

    return write_encoder(
        tmp_path_factory.mktemp("models") / "tiny", pooling={"pooling_mode_mean_tokens": True}
    )
