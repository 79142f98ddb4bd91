"""The training loop: what was opened is closed again, and settings that make no sense are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from core.training import LoopConfig, Trainer, rate_factor, seconds_until
from core.training.trainer import Progress
from tests.core.models import build


@dataclass
class Words:
    tokens: int = 1

    def to(self, device: torch.device) -> Words:
        return self


class Failing:
    """An objective whose first step breaks."""

    is_closed = False

    def batches(self, progress: Progress, fraction: Callable[[], float]) -> Iterator[Words]:
        yield Words()

    def loss(self, model: PreTrainedModel, batch: Words, fraction: float) -> tuple[torch.Tensor, float]:
        raise RuntimeError("broke")

    def held_out(self, model: PreTrainedModel, device: torch.device) -> None:
        return None

    def close(self) -> None:
        self.is_closed = True


def trainer(out: Path, objective: Failing, **settings: object) -> Trainer:
    model = build("llama", torch.float32).requires_grad_(True)
    return Trainer(model, objective, out, LoopConfig(**settings), log=lambda line: None, device="cpu")


def test_a_step_that_breaks_leaves_the_objective_closed(tmp_path: Path) -> None:
    objective = Failing()
    with pytest.raises(RuntimeError, match="broke"):
        trainer(tmp_path, objective).run()
    assert objective.is_closed


def test_an_unknown_optimizer_is_refused_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'mouon'.*muon, adamw"):
        trainer(tmp_path, Failing(), optimizer="mouon")


@pytest.mark.parametrize("clock", ["9", "25:00", "soon", "12:60"])
def test_what_is_no_time_of_day_is_refused(clock: str) -> None:
    with pytest.raises(ValueError, match=f"until='{clock}'.*HH:MM"):
        seconds_until(clock)


def test_without_a_share_to_fall_in_the_rate_stays_level() -> None:
    config = LoopConfig(decay_share=0.0, warmup_steps=10)
    assert [rate_factor(step, 0.99, config) for step in (4, 9, 500)] == [0.5, 1.0, 1.0]
