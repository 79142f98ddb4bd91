"""Two busy cores: many threads for matrices this small only get in each other's way."""

from collections.abc import Iterator

import pytest
import torch

from core import prefixes, slots

torch.set_num_threads(1)


@pytest.fixture
def small_limits() -> Iterator[None]:
    """Limits of prefix reuse that short texts meet."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prefixes, "MAX_LOST", 12)
        patched.setattr(slots, "WORTH_WAITING", 12)
        yield
