"""Chi-square tests without a statistics package."""

from __future__ import annotations

import torch


def chi_square(counts: torch.Tensor, expected: torch.Tensor) -> float:
    """Probability of a deviation at least this large, if the counts were drawn from `expected` (probabilities)."""
    counts, expected = counts.double().flatten(), expected.double().flatten()
    impossible = expected == 0
    assert not counts[impossible].any(), "something impossible was drawn"
    counts, expected = counts[~impossible], expected[~impossible] * counts.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = torch.tensor(len(counts) - 1, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom / 2, statistic / 2))


def independence(table: torch.Tensor) -> float:
    """Probability of a deviation at least this large, if rows and columns of a contingency table were independent."""
    table = table.double()
    expected = table.sum(1, keepdim=True) * table.sum(0, keepdim=True) / table.sum()
    statistic = ((table - expected) ** 2 / expected).sum()
    freedom = torch.tensor((table.shape[0] - 1) * (table.shape[1] - 1), dtype=torch.float64)
    return float(torch.special.gammaincc(freedom / 2, statistic / 2))
