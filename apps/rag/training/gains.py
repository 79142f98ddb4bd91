"""How strongly each step of the chat model's first weights works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gains:
    """How strongly each step works; found by trying them on questions with answers, before any training."""

    begins: float = 2.5
    mark: float = 0.003
    line: float = 1.1
    turn: float = 1.18
    before: float = 0.7
    mixed: float = 0.05
    one: float = 0.2
    sharp: float = 8.0
    name: float = 0.07
    match: float = 1.85
    phrase: float = 0.08
    nowhere: float = 1.9
    asked: float = 1.5
    question: float = 0.85
    title: float = 4.0
    vote: float = 0.02
    gather: float = 0.9
    weight: float = 0.8
    distance: float = 5.0
    sum: float = 4.0
    choose: float = 2.0
    absent: float = 2.7
    sleep: float = 2.4
    never: float = 6.0
    chosen: float = 0.4
    latch: float = 2.6
    kept: float = 0.085
    copy: float = 4.2
    third: float = 1.1
    fourth: float = 1.1
    within: float = 1.2
    copied: float = 0.55
    say: float = 1.0
    end: float = 0.4
    begin: float = 8.0
    begun: float = 1.0
    here: float = 0.68
    turned: float = 0.72
    level: float = 1.815
    far: float = 0.65
    offset: float = 0.023
    counted: float = 0.5
    fast: float = 1.4
