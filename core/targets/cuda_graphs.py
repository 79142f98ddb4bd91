"""Recording a call's kernels once, to launch them together from then on (CUDA graphs).

Knows CUDA streams. Does not know what a pass holds: `runners` keeps the buffers that a recording reads.
"""

from __future__ import annotations

import torch

from core.targets.base import Target
from core.targets.limits import capture_obstacle
from core.targets.runners import PassOutput, Replay

#: Calls before the recording: libraries choose kernels and take workspaces at the first ones.
_WARM_UP = 2


class CudaCapture:
    """Records calls on one device. All recordings share one pool of memory: they never run side by side, and
    what a call returns lies outside the pool or is read before the next replay."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, call: Replay) -> Replay:
        """Raises RuntimeError if the call does what a recording cannot hold (a look at a number on the host)."""
        with torch.cuda.device(self._device):
            before = torch.cuda.current_stream()
            self._stream.wait_stream(before)
            with torch.cuda.stream(self._stream):
                for _ in range(_WARM_UP):
                    call()
            before.wait_stream(self._stream)
            return self._record(call)

    def _record(self, call: Replay) -> Replay:
        graph = torch.cuda.CUDAGraph()
        before = torch.cuda.current_stream()
        try:
            # Other threads may use the device for something else meanwhile (an embedding model, say).
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ):
                output = call()
        finally:
            # A recording that fails leaves its stream current.
            torch.cuda.set_stream(before)

        def replay() -> PassOutput:
            graph.replay()
            return output

        return replay


def use_cuda_graphs(target: Target) -> str | None:
    """Let a target on a CUDA device replay its passes; returns the reason where that cannot be."""
    obstacle = capture_obstacle(target.config)
    if obstacle is None:
        target.use_static_shapes(CudaCapture(target.device))
    return obstacle
