"""How much memory an object holds: its Python objects, arrays and tensors, each once."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

#: What belongs to the program, not to the object.
_CODE = (type, ModuleType, CodeType, BuiltinFunctionType)


def held_bytes(held: Any, besides: Iterable[Any] = ()) -> int:
    """Bytes of `held` and all it refers to, without what `besides` reaches (a target, a tokenizer)."""
    seen: set[int] = set()
    _walk(besides, seen)
    return _walk([held], seen)


def _walk(roots: Iterable[Any], seen: set[int]) -> int:
    total = 0
    waiting = list(roots)
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, _CODE):
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            total += _storage(item, seen)
        elif isinstance(item, np.ndarray):
            # A view's memory is its base's; mapped files have no array at the bottom and count nothing.
            total += item.nbytes if item.base is None else 0
            waiting.append(item.base)
            continue
        elif isinstance(item, FunctionType):
            # Its globals are the program's; what it has closed over is its own.
            waiting += [*(item.__closure__ or ()), *(item.__defaults__ or ())]
            continue
        else:
            total += sys.getsizeof(item)
        waiting += gc.get_referents(item)
    return total


def _storage(tensor: torch.Tensor, seen: set[int]) -> int:
    """A storage counts once, however many tensors look at it."""
    if tensor.is_mkldnn:
        # Packed for oneDNN, which shows no storage.
        return tensor.numel() * tensor.element_size()
    storage = tensor.untyped_storage()
    # Negative, so that an address is not taken for an object's id.
    if -storage.data_ptr() in seen:
        return 0
    seen.add(-storage.data_ptr())
    return storage.nbytes()
