"""Training with a wall-clock budget: loop, schedule, optimizers, averages, checkpoints, log, loss curve.

Knows tensors, a model and an objective that hands out batches and losses. Does not know data or applications.
"""

from .config import LoopConfig, override
from .curve import draw_curve
from .feed import ShardFeed
from .objective import Batch, Held, Objective
from .optimizer import Muon, make_optimizers, orthogonalise, split_parameters
from .precision import mixed_precision
from .schedule import rate_factor, seconds_until
from .ticker import ticker
from .trainer import Progress, Trainer

__all__ = [
    "Batch",
    "Held",
    "LoopConfig",
    "Muon",
    "Objective",
    "Progress",
    "ShardFeed",
    "Trainer",
    "draw_curve",
    "make_optimizers",
    "mixed_precision",
    "orthogonalise",
    "override",
    "rate_factor",
    "seconds_until",
    "split_parameters",
    "ticker",
]
