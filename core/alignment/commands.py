"""What the sub-commands of `python -m core.alignment` take and do."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from core.alignment.config import LIKELIHOOD, LOSSES, AlignConfig
from core.alignment.examples import Example, Layout
from core.training import override

#: Texts that a width is cut by.
_SHOWN = 400


class Target(NamedTuple):
    """A frozen model in float32 and its tokenizer."""

    model: Any
    tokenizer: Any


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", required=True, help="the model to agree with: folder or hub id")
    parser.add_argument(
        "--data", type=Path, nargs="+", default=[], help=".jsonl, or a prompt a line; .gz too"
    )
    parser.add_argument("--prompt-key", default="prompt", help="key of the prompt (default %(default)s)")
    parser.add_argument("--output-key", default="output", help="key of the output (default %(default)s)")
    parser.add_argument("--limit", type=int, default=0, help="so many texts at most (default: all)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")


def _add_training(parser: argparse.ArgumentParser) -> None:
    _add_data(parser)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for checkpoints, log, curve and export"
    )
    parser.add_argument(
        "--outputs", choices=("target", "given"), default="target",
        help="learn from what the target writes, or from the outputs in the files (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--write-temperature", type=float, default=0.0, help="of what the target writes")
    parser.add_argument("--minutes", type=float, default=AlignConfig.minutes, help="summed over resumes")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="any other setting")


def _add_cut(parser: argparse.ArgumentParser) -> None:
    _add_data(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--encoder-layers", type=int, default=1, help="(default %(default)s)")
    parser.add_argument("--decoder-layers", type=int, default=1, help="(default %(default)s)")
    parser.add_argument(
        "--width", type=int, default=0, help="channels; BART only, reads --data (default: all)"
    )
    parser.add_argument("--ffn", type=int, default=0, help="inner places (default: in proportion)")


def _add_train(parser: argparse.ArgumentParser) -> None:
    _add_training(parser)
    parser.add_argument("--draft", required=True, help="the model to train: folder or hub id")
    parser.add_argument("--loss", choices=LOSSES, default=AlignConfig.loss, help="(default %(default)s)")
    parser.add_argument(
        "--on-policy", type=float, default=0.0, help="share of batches the draft writes itself"
    )


def _add_boost(parser: argparse.ArgumentParser) -> None:
    _add_training(parser)
    parser.add_argument("--draft", action="append", required=True, help="a model to train; repeat, in order")
    parser.add_argument(
        "--by-text", action="store_true", help="take out whole texts, as published, not tokens"
    )


def _add_heads(parser: argparse.ArgumentParser) -> None:
    _add_training(parser)
    parser.add_argument("--kind", choices=("blockwise", "medusa", "eagle"), default="medusa")
    parser.add_argument("--loss", choices=LOSSES, default=LIKELIHOOD, help="(default %(default)s)")
    parser.add_argument("--num-heads", type=int, default=3, help="blockwise, Medusa (default %(default)s)")


def _add_fill(parser: argparse.ArgumentParser) -> None:
    _add_training(parser)
    parser.add_argument("--draft", required=True, help="the model to train: folder or hub id")
    parser.add_argument("--mask", type=int, help="id of the mask token (default: the tokenizer's)")
    parser.add_argument(
        "--block", type=int, default=6, help="places filled in one pass (default %(default)s)"
    )


def _add_accept(parser: argparse.ArgumentParser) -> None:
    _add_data(parser)
    parser.add_argument("--draft", action="append", required=True, help="a draft model; repeat to compare")
    parser.add_argument(
        "--depth", type=int, default=5, help="tokens drafted for each pass (default %(default)s)"
    )
    parser.add_argument("--max-new-tokens", type=int, default=128, help="(default %(default)s)")
    parser.add_argument(
        "--rounds",
        type=int,
        default=0,
        help="also time all drafts against plain decoding, in turn (default: no)",
    )
    parser.add_argument(
        "--rows", type=int, default=1, help="prompts at once while timing (default %(default)s)"
    )


def _load(name: str, device: str = "cpu") -> Target:
    import torch
    from transformers import AutoTokenizer

    from core.loading import load_model, pick_device

    model = load_model(name, pick_device(device), torch.float32)
    return Target(model, AutoTokenizer.from_pretrained(name))


def _trainable(name: str) -> Any:
    return _load(name).model.requires_grad_(True)


def _config(options: argparse.Namespace, **more: Any) -> AlignConfig:
    return override(AlignConfig(minutes=options.minutes, **more), options.set)


def _examples(options: argparse.Namespace, target: Target, config: AlignConfig) -> list[Example]:
    """What is learnt from; the target's outputs are kept in the run's folder."""
    from core.alignment.reading import encode_prompts, read_texts
    from core.alignment.writing import engine_of, write_to_file

    if options.outputs == "given":
        return _read(options, target)
    texts = read_texts(options.data, options.prompt_key, options.output_key, options.limit)
    layout = Layout.of(target.model)
    room = layout.max_length if layout.is_encoder_decoder else layout.max_length - config.max_new_tokens
    prompts = encode_prompts(texts, target.tokenizer, room)
    engine = engine_of(target.model, target.tokenizer)
    path = options.out / "target.jsonl"
    return write_to_file(engine, prompts, path, options.write_temperature, config.max_new_tokens, _say)


def _read(options: argparse.Namespace, target: Target) -> list[Example]:
    """Prompts with the outputs that the files give."""
    from core.alignment.reading import encode_pairs, read_texts
    from core.targets.limits import end_token_ids

    texts = read_texts(options.data, options.prompt_key, options.output_key, options.limit)
    pairs = encode_pairs(texts, target.tokenizer, min(end_token_ids(target.model)))
    return [Example(tuple(prompt), tuple(output)) for prompt, output in pairs]


def _cut(options: argparse.Namespace) -> None:
    from core.alignment.cutting import cut_layers
    from core.alignment.examples import batches
    from core.alignment.narrowing import narrow_bart

    target = _load(options.target)
    draft = cut_layers(target.model, options.encoder_layers, options.decoder_layers)
    if options.width:
        shown = batches(_read(options, target)[:_SHOWN], Layout.of(draft), AlignConfig.batch_tokens)
        draft = narrow_bart(draft, options.width, options.ffn, shown)
    draft.save_pretrained(options.out)
    target.tokenizer.save_pretrained(options.out)
    ours, theirs = draft.num_parameters(), target.model.num_parameters()
    _tell({"parameters": ours, "target_parameters": theirs, "share": ours / theirs})


def _train(options: argparse.Namespace) -> None:
    from core.alignment.objective import DistillObjective
    from core.alignment.running import run_training

    config = _config(options, loss=options.loss, on_policy=options.on_policy)
    target = _load(options.target, options.device)
    draft = _trainable(options.draft)
    examples = _examples(options, target, config)
    objective = DistillObjective(target.model, draft, examples, config, target.tokenizer)
    progress = run_training(draft, objective, options.out, config, target.tokenizer, options.device)
    _tell({"steps": progress.step, "tokens": progress.tokens, "held": progress.held})


def _boost(options: argparse.Namespace) -> None:
    from core.alignment.boosting import boost, coverage
    from core.alignment.objective import DistillObjective
    from core.alignment.running import run_training

    config = _config(options, loss=LIKELIHOOD)
    target = _load(options.target, options.device)
    examples = _examples(options, target, config)
    held, examples = examples[-config.held :], examples[: -config.held]

    def train(number: int, left: Sequence[Example]) -> Any:
        draft = _trainable(options.draft[number])
        _say(f"draft {number}: {len(left)} of {len(examples)} texts are left to learn")
        objective = DistillObjective(target.model, draft, left, config, target.tokenizer)
        folder = options.out / f"draft-{number}"
        run_training(draft, objective, folder, config, target.tokenizer, options.device)
        return _load(str(folder / "export"), options.device).model

    drafts = boost(len(options.draft), examples, train, by_text=options.by_text)
    covered = [coverage(drafts[: n + 1], held) for n in range(len(drafts))]
    _tell({"covered_by_the_first": covered})


def _heads(options: argparse.Namespace) -> None:
    from core.alignment.heads import new_heads, objective_of
    from core.alignment.running import ModuleTrainer, run_training

    config = _config(options, loss=options.loss)
    target = _load(options.target, options.device)
    examples = _examples(options, target, config)
    heads = new_heads(options.kind, target.model, options.num_heads)
    objective = objective_of(heads, target.model, examples, config)
    progress = run_training(heads, objective, options.out, config, None, options.device, ModuleTrainer)
    _tell({"steps": progress.step, "tokens": progress.tokens, "held": progress.held})


def _fill(options: argparse.Namespace) -> None:
    from core.alignment.filling import FillingObjective
    from core.alignment.running import run_training

    config = _config(options, loss=LIKELIHOOD)
    target = _load(options.target, options.device)
    draft = _trainable(options.draft)
    mask = target.tokenizer.mask_token_id if options.mask is None else options.mask
    if mask is None:
        raise ValueError(
            "the tokenizer names no mask token; give the id of one that texts do not use with --mask"
        )
    examples = _examples(options, target, config)
    objective = FillingObjective(draft, examples, config, mask, options.block)
    progress = run_training(draft, objective, options.out, config, target.tokenizer, options.device)
    _tell({"steps": progress.step, "tokens": progress.tokens, "held": progress.held, "mask_token_id": mask})


def _accept(options: argparse.Namespace) -> None:
    from core.alignment.acceptance import tokens_per_pass
    from core.alignment.reading import encode_prompts, read_texts
    from core.loading import load

    target, tokenizer = load(options.target, options.device, "float32")
    texts = read_texts(options.data, options.prompt_key, options.output_key, options.limit)
    room = target.max_length - (0 if target.is_encoder_decoder else options.max_new_tokens)
    prompts = encode_prompts(texts, tokenizer, room)
    settings = (
        ("greedy", 0.0, "exact"),
        ("sampled", 1.0, "exact"),
        ("textbook", 1.0, "speculative_sampling"),
    )
    drafts = [load(name, options.device, "float32")[0] for name in options.draft]
    speeds = _speeds(options, target, drafts, tokenizer, prompts)
    for name, draft, speed in zip(options.draft, drafts, speeds, strict=True):
        found = {
            words: tokens_per_pass(
                target, draft, tokenizer, prompts, temperature=temperature, depth=options.depth,
                max_new_tokens=options.max_new_tokens, rule=rule,
            )
            for words, temperature, rule in settings
        }  # fmt: skip
        _tell({"draft": name, "prompts": len(prompts), "depth": options.depth, **found, **speed})


def _speeds(
    options: argparse.Namespace, target: Any, drafts: list[Any], tokenizer: Any, prompts: list[Any]
) -> list[dict[str, Any]]:
    """What the clock says of each draft, by setting; nothing without rounds."""
    from core.alignment.speed import times_plain

    if options.rounds < 0 or options.rows < 1:
        raise ValueError(
            f"--rounds {options.rounds} must be 0 (no clock) or more, --rows {options.rows} at least 1"
        )
    settings = (("timed", 0.0), ("timed_sampled", 1.0)) if options.rounds else ()
    found = {
        words: times_plain(
            target, drafts, tokenizer, prompts, rounds=options.rounds, rows=options.rows,
            temperature=temperature, max_new_tokens=options.max_new_tokens,
        )
        for words, temperature in settings
    }  # fmt: skip
    return [{words: figures[i] for words, figures in found.items()} for i in range(len(drafts))]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _tell(result: dict[str, Any]) -> None:
    print(json.dumps(result))


Add = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], None]

COMMANDS: dict[str, tuple[Add, Run, str]] = {
    "cut": (_add_cut, _cut, "cut a draft model out of its target"),
    "train": (_add_train, _train, "distil the target into a draft model"),
    "boost": (_add_boost, _boost, "train draft models, each on what those before it miss"),
    "heads": (_add_heads, _heads, "train heads on the target"),
    "fill": (_add_fill, _fill, "train a draft model to fill blocks of masks (SpecDec)"),
    "accept": (_add_accept, _accept, "measure what the target accepts of draft models"),
}
