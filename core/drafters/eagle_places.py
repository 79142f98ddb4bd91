"""The passes of an EAGLE head over the windows of several rows, and then over their trees.

Knows the head's keys, values and masks. Does not know where hidden states come from, nor how trees are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from core.drafters.beam import Beam
from core.drafters.eagle_head import EagleHead, KeysValues
from core.drafters.model_parts import ModelParts


class EaglePlaces:
    """One step's drafting. Every row has the same number of places: those of its window, padded in front, and `width`
    for each level of its tree."""

    def __init__(self, head: EagleHead, parts: ModelParts, beams: Seq[Beam], width: int) -> None:
        self._head = head
        self._parts = parts
        self._beams = beams
        self._width = width
        self._past: list[KeysValues] = []
        # Of each row's nodes that were read: the places that they see, themselves included.
        self._seen: list[dict[int, list[int]]] = []
        # The head's states behind the pending tokens and the nodes: where a node stands among `_states`.
        self._states: list[torch.Tensor] = []
        self._number: list[dict[int, int]] = []

    def read_windows(self, hidden: Seq[torch.Tensor], tokens: Seq[Seq[int]]) -> torch.Tensor:
        """Logits [B, V] behind the pending tokens."""
        device = hidden[0].device
        longest = max(len(window) for window in tokens)
        sizes = [len(window) for window in tokens]
        ids = torch.tensor([[0] * (longest - len(window)) + list(window) for window in tokens], device=device)
        states = hidden[0].new_zeros(len(tokens), longest, hidden[0].shape[1])
        for b, some in enumerate(hidden):
            states[b, longest - len(some) :] = some
        mask = self._head.window_mask(longest, device).repeat(len(tokens), 1, 1)
        empty = torch.tensor([longest - size for size in sizes], device=device)
        places = torch.arange(longest, device=device)
        # Padding sees itself, or a softmax over nothing would come out.
        mask &= (places >= empty[:, None])[:, None] | torch.eye(longest, dtype=torch.bool, device=device)
        out, self._past = self._head(states, self._parts.embed(ids), mask, places.expand(len(tokens), -1))
        self._seen = [{-1: list(range(longest - size, longest))} for size in sizes]
        self._number = [{-1: b} for b in range(len(tokens))]
        self._states = [out[:, -1]]
        return self._parts.logits(out[:, -1])

    def read_frontiers(self) -> torch.Tensor:
        """Logits [sum of frontiers, V] behind the frontiers' nodes."""
        past = self._past[0][0].shape[2]
        num_states = sum(len(states) for states in self._states)
        parents, ids, positions, masks, wanted = [], [], [], [], []
        for b, beam in enumerate(self._beams):
            for j in range(self._width):
                place = past + j
                node = beam.frontier[j] if j < len(beam.frontier) else None
                parent = -1 if node is None else beam.parent(node)
                parents.append(self._number[b][parent])
                ids.append(0 if node is None else beam.tokens[node])
                # Behind the window come the levels of the tree.
                positions.append(self._seen[b][-1][-1] + (1 if node is None else beam.depth(node)))
                seen = [place] if node is None else [*self._seen[b][parent], place][-self._head.window :]
                masks.append(seen)
                if node is not None:
                    self._seen[b][node] = seen
                    self._number[b][node] = num_states + b * self._width + j
                    wanted.append(b * self._width + j)
        out = self._read(parents, ids, positions, masks)
        self._states.append(out)
        for beam in self._beams:
            beam.expanded += beam.frontier
        return self._parts.logits(out[torch.tensor(wanted, device=out.device)])

    def _read(
        self, parents: list[int], ids: list[int], positions: list[int], seen: list[list[int]]
    ) -> torch.Tensor:
        """States [B * width, hidden size] of the nodes given flat, row after row."""
        device = self._states[0].device
        rows, width = len(self._beams), self._width
        # One copy to the device for all numbers.
        numbers = torch.tensor([parents, ids, positions], device=device)
        total = self._past[0][0].shape[2] + width
        mask = torch.zeros(rows * width, total, dtype=torch.bool)
        for query, places in enumerate(seen):
            mask[query, places] = True
        hidden = torch.cat(self._states)[numbers[0]].view(rows, width, -1)
        out, self._past = self._head(
            hidden,
            self._parts.embed(numbers[1]).view(rows, width, -1),
            mask.to(device).view(rows, width, total),
            numbers[2].view(rows, width),
            self._past,
        )
        return out.flatten(0, 1)
