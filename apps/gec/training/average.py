"""`python -m apps.gec.training.average MODEL MODEL... --out OUT`: one model of the mean of several ones' weights.

A run that went on from another's weights has its errors in other places; between the two lies a model that makes fewer
than either ("Model soups", arXiv 2203.05482). Takes folders of one architecture with one tokenizer.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer
from safetensors.torch import load_file, save_file

from apps.printing import say, told

_WEIGHTS = "model.safetensors"
_TOKENIZER = "tokenizer.json"


def average(folders: list[Path], out: Path) -> None:
    """Write the mean of the weights in `folders` to `out`, with all else as it is in the last of them.

    Raises FileNotFoundError for a folder without weights, ValueError for fewer than two and for unlike models.
    """
    if len(folders) < 2:
        raise ValueError("one model has no average; give two folders or more")
    for folder in folders:
        if not (folder / _WEIGHTS).is_file():
            raise FileNotFoundError(f"no {_WEIGHTS} in {folder}; give folders of exported models")
    last = folders[-1]
    models = [load_file(folder / _WEIGHTS) for folder in folders]
    shapes = [{name: weight.shape for name, weight in model.items()} for model in models]
    tokenizers = [(folder / _TOKENIZER).read_bytes() for folder in folders]
    for folder, own, tokenizer in zip(folders, shapes, tokenizers, strict=True):
        if own != shapes[-1] or tokenizer != tokenizers[-1]:
            raise ValueError(
                f"{folder} and {last} differ in size or tokenizer; only alike models have an average"
            )
    means = {
        name: torch.stack([model[name].float() for model in models]).mean(0).to(weight.dtype)
        for name, weight in models[-1].items()
    }
    shutil.copytree(last, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_WEIGHTS))
    save_file(means, out / _WEIGHTS, metadata={"format": "pt"})


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def main(
    models: Annotated[list[Path], typer.Argument(help="Folders of models that are alike.")],
    out: Annotated[Path, typer.Option(help="Folder for the new one.")],
) -> None:
    """Average the weights of several models."""
    with told(FileNotFoundError, ValueError):
        average(models, out)
    say(f"the average of {len(models)} models is in {out}")


if __name__ == "__main__":
    app(prog_name="python -m apps.gec.training.average")
