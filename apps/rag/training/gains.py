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
    mixed: float = 0.01
    one: float = 0.2
    sharp: float = 20000.0
    name: float = 0.07
    match: float = 1.85
    phrase: float = 0.08
    nowhere: float = 2.81
    asked: float = 1.5
    question: float = 1.0
    title: float = 3.6
    vote: float = 0.0211
    weight: float = 1.25
    sum: float = 90.0
    word: float = 2.85
    same: float = 2.0
    fresh: float = 3.21
    again: float = 0.03
    within_sum: float = 1.4
    nothing: float = 2.085
    once: float = 2.5
    early: float = 0.11
    short: float = 4.0
    asking: float = 1.66
    telling: float = 0.9
    unasked: float = 2.4
    total: float = 13.6
    share: float = 3.1
    titled: float = 2.0
    untitled: float = 2.765
    heading: float = 2.0
    ends: float = 2.0
    choose: float = 9.2
    absent: float = 2.42
    sleep: float = 2.4
    never: float = 10.0
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
    here: float = 0.7
    turned: float = 0.75
    level: float = 1.87
    far: float = 0.4
    far_fast: float = 0.5
    offset: float = 0.023
    counted: float = 0.6
    fast: float = 1.4
