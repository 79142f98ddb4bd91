"""`python -m core.alignment`: make a drafter agree with its target.

cut    --target T --out DIR            a smaller model out of a BART or a Llama-like one
train  --target T --draft D --out DIR  Seq-KD, token-level KD on given, the target's or the draft's own outputs
boost  --target T --draft A --draft B  each learns what those before it miss (SpecInfer)
heads  --target T --kind medusa        blockwise, Medusa or EAGLE-style heads for the target
fill   --target T --draft D --mask ID  a draft model that fills a block of masks in one pass (SpecDec)
accept --target T --draft D            tokens per pass and acceptance of draft models, with --rounds also their speed

Texts come from --data: .jsonl with a prompt (and an output), anything else has a prompt a line; .gz is read too. Runs
go on from where they stopped when the command is given again.
"""

from __future__ import annotations

import argparse
import sys

from core.alignment import commands


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done, 2 wrong arguments, 130 stopped."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m core.alignment", description="Make a drafter agree with its target."
    )
    found = parser.add_subparsers(required=True)
    for name, (add, run, words) in commands.COMMANDS.items():
        one = found.add_parser(name, help=words, description=words)
        add(one)
        one.set_defaults(run=run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
