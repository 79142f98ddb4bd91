"""What a sentence-transformers style folder says about itself: pooling, projections, lengths, prompts.

Knows the JSON files of that layout. Loads no weights and imports no torch.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Older saves have one switch per mode; the order is the order in which several are concatenated.
POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
POOLING_MODES = tuple(POOLING_SWITCHES.values())
LENGTH_FILES = "sentence_*_config.json"
DOCUMENT_PROMPTS = (
    "document",
    "passage",
    "corpus",
)  # the names that are in use, in sentence-transformers' order
_HASH_BLOCK = 1 << 22


@dataclass(frozen=True)
class EncoderConfig:
    """How token states become one vector per text, as the model's own files say.

    `transformer` is the folder with config.json and weights; `tail` lists what follows the pooling, in order:
    "normalize", or the folder of a dense layer. `max_length` counts tokens with the special ones.
    """

    transformer: Path
    pooling: tuple[str, ...] = ("mean",)
    pools_prompt: bool = True
    tail: tuple[str | Path, ...] = ()
    max_length: int | None = None
    lowercase: bool = False
    query_prompt: str = ""
    document_prompt: str = ""

    @classmethod
    def from_folder(cls, folder: Path) -> EncoderConfig:
        """Reads the folder. Without `modules.json` it is mean pooling over a plain transformers model, which is
        what sentence-transformers makes of one. Raises ValueError for parts that cannot be run."""
        if not folder.is_dir():
            raise ValueError(
                f"{folder} is not a folder; give a folder with config.json and model.safetensors"
            )
        modules = _read_json(folder / "modules.json", [])
        found: dict[str, Any] = {"transformer": folder}
        tail: list[str | Path] = []
        for module in modules:
            kind, where = str(module["type"]).rsplit(".", 1)[-1], folder / module["path"]
            if kind == "Transformer":
                found["transformer"] = where
            elif kind == "Pooling":
                found |= _pooling(where)
            elif kind == "Normalize":
                tail.append("normalize")
            elif kind == "Dense":
                tail.append(where)
            elif kind != "Dropout":  # does nothing outside training
                raise ValueError(
                    f"{folder} has a {kind} module, which is not supported; choose a model made of Transformer, "
                    "Pooling, Dense and Normalize"
                )
        return cls(**found, **_lengths(found["transformer"]), **_prompts(folder), tail=tuple(tail))


def fingerprint(folder: Path) -> str:
    """SHA-256 over every file that takes part in an embedding: weights, tokenizer, configurations."""
    digest = hashlib.sha256()
    parts = ("*.json", "*.txt", "*.model", "*.safetensors")
    skipped = {"data_config.json", "README.txt"}
    paths = {path for part in parts for path in [*folder.glob(part), *folder.glob(f"[0-9]_*/{part}")]}
    for path in sorted(paths):
        if path.name not in skipped:
            digest.update(f"{path.relative_to(folder).as_posix()} {file_digest(path)}\n".encode())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _pooling(folder: Path) -> dict[str, Any]:
    settings = _read_json(folder / "config.json", {})
    modes = settings.get("pooling_mode")
    if modes is None:
        modes = [mode for switch, mode in POOLING_SWITCHES.items() if settings.get(switch)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else list(modes)
    if unknown := [mode for mode in modes if mode not in POOLING_MODES]:
        raise ValueError(f"{folder} asks for pooling {unknown[0]!r}; known are {', '.join(POOLING_MODES)}")
    return {"pooling": tuple(modes), "pools_prompt": bool(settings.get("include_prompt", True))}


def _lengths(folder: Path) -> dict[str, Any]:
    for path in sorted(folder.glob(LENGTH_FILES)):
        settings = _read_json(path, {})
        return {
            "max_length": settings.get("max_seq_length"),
            "lowercase": bool(settings.get("do_lower_case", False)),
        }
    return {}


def _prompts(folder: Path) -> dict[str, Any]:
    settings = _read_json(folder / "config_sentence_transformers.json", {})
    prompts: dict[str, str] = settings.get("prompts") or {}
    default = prompts.get(settings.get("default_prompt_name") or "", "")
    document = next((prompts[name] for name in DOCUMENT_PROMPTS if name in prompts), default)
    return {"query_prompt": prompts.get("query", default) or "", "document_prompt": document or ""}


def _read_json(path: Path, absent: Any) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return absent
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON ({error}); fetch the model again") from error
