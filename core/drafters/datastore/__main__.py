"""`python -m core.drafters.datastore`: build a datastore from texts, or check one.

build OUT TEXT... --tokenizer MODEL     one document a line; .gz is read too; .npy holds token ids
check FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.drafters.datastore import store
from core.drafters.token_files import checked, encode


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done, 1 damaged, 2 wrong arguments."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m core.drafters.datastore", description="Datastores of REST."
    )
    commands = parser.add_subparsers(required=True)
    build = commands.add_parser("build", help="sort texts into a new datastore")
    build.add_argument("out", type=Path, help="folder to make")
    build.add_argument(
        "texts", type=Path, nargs="+", help="text files, one document a line, or .npy of token ids"
    )
    build.add_argument(
        "--tokenizer", required=True, help="folder or id of the model that will read the store"
    )
    build.add_argument(
        "--max-tokens", type=int, default=100_000_000, help="stop reading there (default %(default)s)"
    )
    build.set_defaults(run=_build)
    check = commands.add_parser("check", help="compare the files with the manifest's checksums")
    check.add_argument("folder", type=Path)
    check.set_defaults(run=_check)
    return parser


def _build(options: argparse.Namespace) -> int:
    from transformers import AutoConfig, AutoTokenizer

    missing = [str(path) for path in options.texts if not path.is_file()]
    if missing:
        raise ValueError(f"there is no file {', '.join(missing)}")
    config = AutoConfig.from_pretrained(options.tokenizer)
    vocab_size = config.get_text_config(decoder=True).vocab_size
    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    tokens = read_texts(options.texts, tokenizer, vocab_size, options.max_tokens)
    print(f"sorting {len(tokens):,} tokens", file=sys.stderr)
    manifest = store.build(options.out, tokens, vocab_size, Path(options.tokenizer).name)
    print(json.dumps(asdict(manifest)))
    return 0


def read_texts(
    paths: list[Path], tokenizer: object, vocab_size: int, max_tokens: int
) -> npt.NDArray[np.int64]:
    """All texts one behind the other, each ended by `vocab_size`; no more than `max_tokens` in all."""
    parts: list[npt.NDArray[np.int64]] = []
    room = max_tokens
    for path in paths:
        texts = (
            iter([np.load(path, allow_pickle=False)]) if path.suffix == ".npy" else encode([path], tokenizer)
        )
        for text in texts:
            if room <= 1:
                break
            ids = checked(np.asarray(text), vocab_size, str(path))[: room - 1]
            parts.append(np.append(ids, vocab_size))
            room -= len(parts[-1])
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _check(options: argparse.Namespace) -> int:
    broken = store.damaged(options.folder)
    for name in broken:
        print(f"{name} is not what was built", file=sys.stderr)
    print(json.dumps({"damaged": broken}))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
