"""The options that the commands share, with their help. Knows typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Docs = Annotated[
    Path | None, typer.Option(help="File or folder of documents to retrieve: txt, md, html, pdf, docx.")
]
Store = Annotated[
    Path | None,
    typer.Option("--datastore", help="Folder made by the datastore command: KNN-LM instead of documents."),
]
Model = Annotated[
    str | None, typer.Option(help="Folder or hub id of a decoder-only model.", show_default="the shipped one")
]
RetrieverName = Annotated[str, typer.Option("--retriever", help="dense, bm25, or auto.")]
DrafterName = Annotated[
    str, typer.Option("--drafter", help="How tokens are guessed; never changes the text.")
]
MethodName = Annotated[
    Literal["in-context", "iter-retgen", "flare"],
    typer.Option(
        "--method",
        help="in-context: every --stride tokens; iter-retgen: with the last answer; flare: where unsure.",
    ),
]
Stride = Annotated[int, typer.Option(help="in-context: tokens between retrievals.")]
Iterations = Annotated[int, typer.Option(help="iter-retgen: answers written, each over the last one.")]
Threshold = Annotated[float, typer.Option(help="flare: a token less probable than this asks.")]
Mask = Annotated[float, typer.Option(help="flare: tokens less probable than this stay out of the query.")]
Lookahead = Annotated[int, typer.Option(help="flare: tokens of a sentence, at most.")]
QueryTokens = Annotated[int, typer.Option(help="Last tokens that ask.")]
DocumentTokens = Annotated[int, typer.Option(help="Tokens of a document, at most.")]
Prefetch = Annotated[
    int | None,
    typer.Option(
        help="What a verification brings beyond its answer: documents (1: none), with --datastore entries that "
        "follow a hit.",
        show_default="20; 10 with --datastore",
    ),
]
Fixed = Annotated[
    int | None, typer.Option("--steps", help="Always so many guesses.", show_default="the scheduler's")
]
Asynchronous = Annotated[bool, typer.Option(help="Write on while a verification runs.")]
Paper = Annotated[bool, typer.Option("--paper", help="The published scheduler and limits.")]
Neighbours = Annotated[int, typer.Option("--neighbours", "-k", help="KNN-LM: nearest contexts, 1 to 1024.")]
Weight = Annotated[
    float, typer.Option("--lambda", help="KNN-LM: weight of the neighbours, from 0 to below 1.")
]
Bandwidth = Annotated[float, typer.Option(help="KNN-LM: squared distance over which nearness falls by 1/e.")]
MaxTokens = Annotated[int, typer.Option(help="Tokens to write, at most.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
Seed = Annotated[int, typer.Option(help="For temperatures above 0.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16, int8.")]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="text or json.")]
Window = Annotated[int, typer.Option(help="Tokens that the model reads at once; half of them overlap.")]
