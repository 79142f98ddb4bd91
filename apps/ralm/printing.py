"""What speculation did and cost, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apps.printing import say

if TYPE_CHECKING:
    from .stats import RetrievalStats


def say_stats(stats: RetrievalStats) -> None:
    """What speculation did and cost."""
    seconds = stats.seconds
    say(
        f"retrievals {stats.retrievals}, calls of the retriever {stats.calls} (saved {stats.saved}), "
        f"queries {stats.queries}, asynchronous {stats.asynchronous_calls}"
    )
    say(
        f"guesses right {stats.hits} of {stats.guesses}, roll-backs {stats.roll_backs} "
        f"({stats.lost_tokens} tokens), strides {' '.join(map(str, stats.strides)) or '-'}"
    )
    say(
        f"a {stats.step * 1e3:.2f} ms, b {stats.base * 1e3:.2f} + {stats.per_query * 1e3:.2f} n ms, "
        f"gamma {stats.hit_rate:.2f}"
    )
    say(
        f"seconds: encode {seconds.encode:.3f}, lookup {seconds.lookup:.3f}, search {seconds.search:.3f}, "
        f"wait {seconds.wait:.3f}, write {seconds.write:.3f}"
    )
