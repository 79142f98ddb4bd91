"""The options of a job and what their help says; those of its corrector are `apps.gec.options`."""

from pathlib import Path
from typing import Annotated

import typer

Source = Annotated[Path, typer.Argument(metavar="IN", help=".txt, .jsonl, .csv (or .gz of these), .parquet.")]
Output = Annotated[Path, typer.Argument(metavar="OUT", help="The same format as IN; .gz or not.")]
Column = Annotated[str, typer.Option(help="The column with the text.")]
OutputColumn = Annotated[str, typer.Option(help="The column for the correction; may be the same.")]
MaxChars = Annotated[int, typer.Option(help="Longer texts are rejected.")]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace what is at OUT; an unfinished run of this job is still continued."
    ),
]
Workers = Annotated[
    str,
    typer.Option(
        metavar="N|auto",
        help="Processes, started as they pay. auto: one a physical core as far as memory reaches, one on a GPU.",
    ),
]
BatchSize = Annotated[int, typer.Option(help="Sentences that the model reads together, in each process.")]
Stats = Annotated[bool, typer.Option("--stats", help="Print counts and speed at the end.")]
