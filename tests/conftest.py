"""Test workers that run side by side share the cores, instead of each taking all of them."""

from __future__ import annotations

import os

_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if _workers > 1:
    # Before torch is imported, and for the processes that tests start.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // _workers)))
