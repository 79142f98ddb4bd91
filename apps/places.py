"""Where the applications' files lie: what ships, what training reads, what can be built again. Knows paths only."""

from __future__ import annotations

import os
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
#: The folder of training text and evaluation sets beside the repository; it does not ship.
SHARED_DATA = _ROOT.parent / "shared" / "data"


def shipped(name: str) -> Path:
    """What lies at `data/<name>` of the repository, or of the working directory where only that exists."""
    own, here = _ROOT / "data" / name, Path("data") / name
    return here if here.exists() and not own.exists() else own


def cache_folder() -> Path:
    """Where what can be built again is kept: `ECHODRAFT_CACHE`, or `echodraft` in the user's cache folder."""
    own = os.environ.get("ECHODRAFT_CACHE")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "echodraft"
