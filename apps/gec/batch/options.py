"""The options of the command line and what its help says of them. Defaults are the configurations' own."""

from pathlib import Path
from typing import Annotated

import typer

Source = Annotated[Path, typer.Argument(metavar="IN", help=".txt, .jsonl, .csv (or .gz of these), .parquet.")]
Output = Annotated[Path, typer.Argument(metavar="OUT", help="The same format as IN; .gz or not.")]
Column = Annotated[str, typer.Option(help="The column with the text.")]
OutputColumn = Annotated[str, typer.Option(help="The column for the correction; may be the same.")]
MaxChars = Annotated[int, typer.Option(help="Longer texts are rejected.")]
Overwrite = Annotated[
    bool, typer.Option(help="Replace what is at OUT; an unfinished run of this job is still continued.")
]
Workers = Annotated[
    str,
    typer.Option(
        metavar="N|auto",
        help="Processes, started as they pay. auto: one a physical core as far as memory reaches, one on a GPU.",
    ),
]
BatchSize = Annotated[int, typer.Option(help="Sentences that the model reads together, in each process.")]
Model = Annotated[str | None, typer.Option(help="A local path or hub id.")]
Drafter = Annotated[str, typer.Option(help="How guesses are made; never changes the text.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16 ...")]
Caution = Annotated[float, typer.Option(help="Higher: fewer, surer edits.")]
Prompt = Annotated[str | None, typer.Option(help="A template with {text}.")]
Stats = Annotated[bool, typer.Option("--stats", help="Print counts and speed at the end.")]
