"""What an alignment run can be told; the command line takes its defaults from here."""

from __future__ import annotations

from dataclasses import dataclass

from core.alignment.divergences import DIVERGENCES
from core.training import LoopConfig

#: Cross entropy on the outputs: Seq-KD where the target wrote them (Kim and Rush, 1606.07947).
LIKELIHOOD = "likelihood"
LOSSES = (LIKELIHOOD, *DIVERGENCES)


@dataclass(frozen=True)
class AlignConfig(LoopConfig):
    """`loss` is one of LOSSES. A share `on_policy` of the batches is written by the draft itself as it then is
    (DistillSpec), at `temperature`, and judged by the target; a new lot of `rollouts` prompts every `refresh` steps.
    `likelihood_weight` adds cross entropy to a divergence. `held` examples are never trained on."""

    minutes: float = 10.0
    loss: str = "forward_kl"
    on_policy: float = 0.0
    temperature: float = 1.0
    rollouts: int = 64
    refresh: int = 20
    likelihood_weight: float = 0.0
    batch_tokens: int = 2048
    max_new_tokens: int = 128
    held: int = 64
    warmup_steps: int = 50
    ema: float = 0.98

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        if self.loss not in LOSSES:
            raise ValueError(f"no loss {self.loss!r}; there are {', '.join(LOSSES)}")
        if not 0 <= self.on_policy <= 1:
            raise ValueError(f"on_policy={self.on_policy} must lie in [0, 1]: a share of the batches")
        if self.on_policy and self.loss == LIKELIHOOD:
            raise ValueError(
                "likelihood on the draft's own outputs teaches it nothing; choose a divergence, or on_policy=0"
            )
        if not self.temperature >= 0:
            raise ValueError(f"temperature={self.temperature} must be 0 (greedy) or more")
        for name in ("rollouts", "refresh", "batch_tokens", "max_new_tokens", "held"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
