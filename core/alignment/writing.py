"""Outputs for prompts, written by a model through the engine: the target's (kept in a file), or the draft's own.

Knows engines and files of token ids. Does not know losses.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

from core.alignment.examples import Example
from core.engine import Engine
from core.targets.registry import target_for
from core.types import Request, SamplingParams

#: Prompts that are written together, and kept on disk together.
_LOT = 256
_ROWS = 16


def write(
    engine: Engine, prompts: Seq[Seq[int]], temperature: float, max_new_tokens: int, seed: int = 0
) -> list[Example]:
    """An output for each prompt (token ids, special tokens included); prompt i is sampled with seed `seed` + i."""
    requests = []
    for i, prompt in enumerate(prompts):
        params = SamplingParams(temperature=temperature, max_new_tokens=max_new_tokens, seed=seed + i)
        requests.append(Request(prompt, params=params))
    done = engine.generate(requests)
    return [Example(tuple(p), tuple(d.token_ids)) for p, d in zip(prompts, done, strict=True)]


def write_to_file(
    engine: Engine,
    prompts: Seq[Seq[int]],
    path: Path,
    temperature: float,
    max_new_tokens: int,
    log: Callable[[str], None] = lambda _: None,
) -> list[Example]:
    """The same, kept in a JSONL file lot by lot; what is there already is not written again.

    Raises ValueError where the file was made from other prompts.
    """
    kept = list(read_examples(path)) if path.exists() else []
    for number, (example, prompt) in enumerate(zip(kept, prompts, strict=False), 1):
        if list(example.prompt) != list(prompt):
            raise ValueError(
                f"{path}, line {number}, answers another prompt; remove the file, or give another folder"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as out:
        for start in range(len(kept), len(prompts), _LOT):
            lot = write(engine, prompts[start : start + _LOT], temperature, max_new_tokens, seed=start)
            for example in lot:
                out.write(json.dumps({"prompt": example.prompt, "output": example.output}) + "\n")
            out.flush()
            kept += lot
            log(f"{len(kept)} of {len(prompts)} outputs written")
    return kept[: len(prompts)]


def read_examples(path: Path) -> Iterator[Example]:
    """The examples of a file that `write_to_file` made; a last line that was cut off is left out and mended."""
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if len(whole) < len(text):
        path.write_text(whole, encoding="utf-8")
    for line in whole.splitlines():
        row = json.loads(line)
        yield Example(tuple(row["prompt"]), tuple(row["output"]))


def engine_of(model: Any, tokenizer: Any) -> Engine:
    """An engine over a copy of a model that is being trained: the weights as they are now, and none of the
    engine's hooks in the model."""
    frozen = copy.deepcopy(model).eval().requires_grad_(False)
    return Engine(target_for(frozen), tokenizer, "copy", max_rows=_ROWS, prefix_rows=0)
