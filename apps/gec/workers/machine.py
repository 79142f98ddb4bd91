"""What this machine, or the container on it, lets a program use: cores and memory.

Knows Linux's files under /proc and /sys, and what Python offers elsewhere. `root` is where those files are looked for.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

_ROOT = Path("/")


def physical_cores(root: Path = _ROOT) -> int:
    """Cores that this process may run on, hyper-threads of one core counted once, cut to the container's quota."""
    usable = (
        sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    siblings = [
        _read(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        for cpu in usable
    ]
    return max(1, min(len(set(siblings)), _quota(root)))


def available_memory(root: Path = _ROOT) -> int:
    """Bytes that can be taken without swapping; all there are where the system does not tell."""
    free = _memory_available(root)
    limit, used = _read(root / "sys/fs/cgroup/memory.max"), _read(root / "sys/fs/cgroup/memory.current")
    if limit.isdigit() and used.isdigit():
        free = min(free, max(0, int(limit) - int(used)))
    return free


def resident_memory(root: Path = _ROOT) -> int:
    """Bytes of memory that this process holds, shared pages included: now, or at most where only that is told."""
    pages = _read(root / "proc/self/statm").split()
    if len(pages) > 1:
        return int(pages[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on the systems without /proc


def _quota(root: Path) -> int:
    """Whole cores that the control group grants, at least one."""
    words = _read(root / "sys/fs/cgroup/cpu.max").split()
    if len(words) != 2 or not words[0].isdigit():
        return 1 << 16
    return max(1, int(words[0]) // int(words[1]))


def _memory_available(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read(path: Path) -> str:
    """What the file says, "" where there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
