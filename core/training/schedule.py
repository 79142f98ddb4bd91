"""When a run ends and how its learning rate moves: functions of step and spent share alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from .config import LoopConfig


def seconds_until(clock: str) -> float:
    """Seconds from now until the next HH:MM (UTC)."""
    try:
        time = datetime.strptime(clock, "%H:%M")
    except ValueError as error:
        raise ValueError(f"until={clock!r} is no time of day; write HH:MM (UTC)") from error
    now = datetime.now(UTC)
    then = now.replace(hour=time.hour, minute=time.minute, second=0, microsecond=0)
    gap = (then - now).total_seconds()
    # A moment that has just passed means "now", not "tomorrow".
    return gap if gap > -6 * 3600 else gap + timedelta(days=1).total_seconds()


def rate_factor(step: int, fraction: float, config: LoopConfig) -> float:
    """Warm-up, then level, then down to (almost) nothing over the last share of the budget, if it has any."""
    warm = min(1.0, (step + 1) / max(1, config.warmup_steps))
    if not config.decay_share:
        return warm
    left = max(0.0, 1.0 - fraction) / config.decay_share
    return warm * min(1.0, max(left, 0.01))
