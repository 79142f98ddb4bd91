"""The options that the commands share, with their help: groups by what they choose. Knows typer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from apps.drafter_options import read_options

from .config import Method, RetrievalConfig, SpeculationConfig
from .knn.config import KnnConfig
from .opening import Chosen

if TYPE_CHECKING:
    from core import SamplingParams

RETRIEVAL, SPECULATION, KNN = RetrievalConfig(), SpeculationConfig(), KnnConfig()

Docs = Annotated[
    Path | None, typer.Option(help="File or folder of documents to retrieve: txt, md, html, pdf, docx.")
]
Store = Annotated[
    Path | None,
    typer.Option("--datastore", help="Folder made by the datastore command: KNN-LM instead of documents."),
]
Retriever = Annotated[str, typer.Option(help="dense, bm25, or auto.")]
MaxTokens = Annotated[int, typer.Option(help="Tokens to write, at most.")]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="text or json.")]
Window = Annotated[int, typer.Option(help="Tokens that the model reads at once; half of them overlap.")]
Drafter = Annotated[str, typer.Option(help="How tokens are guessed; never changes the text.")]


@dataclass(frozen=True)
class ModelOptions:
    """Which model writes, and how it runs."""

    model: Annotated[
        str | None,
        typer.Option(help="Folder or hub id of a decoder-only model.", show_default="the shipped one"),
    ] = None
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N.")] = "auto"
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, int8.")] = "auto"

    def chosen(self, drafter: str = "none", options: list[str] | None = None) -> Chosen:
        """The model with a drafter and its options. Raises ValueError, naming an option of another form."""
        read_options(options or ())
        return Chosen(self.model, drafter, self.device, self.dtype, tuple(options or ()))


@dataclass(frozen=True)
class RetrievalOptions:
    """When the model retrieves and what it then reads."""

    method: Annotated[
        Method,
        typer.Option(
            help="in-context: every --stride tokens; iter-retgen: with the last answer; flare: where unsure."
        ),
    ] = RETRIEVAL.method
    stride: Annotated[int, typer.Option(help="in-context: tokens between retrievals.")] = RETRIEVAL.stride
    iterations: Annotated[int, typer.Option(help="iter-retgen: answers written, each over the last one.")] = (
        RETRIEVAL.iterations
    )
    threshold: Annotated[float, typer.Option(help="flare: a token less probable than this asks.")] = (
        RETRIEVAL.threshold
    )
    mask: Annotated[
        float, typer.Option(help="flare: tokens less probable than this stay out of the query.")
    ] = RETRIEVAL.mask
    lookahead: Annotated[int, typer.Option(help="flare: tokens of a sentence, at most.")] = (
        RETRIEVAL.lookahead
    )
    query_tokens: Annotated[int, typer.Option(help="Last tokens that ask.")] = RETRIEVAL.query_tokens
    document_tokens: Annotated[int, typer.Option(help="Tokens of a document, at most.")] = (
        RETRIEVAL.document_tokens
    )

    def config(self) -> RetrievalConfig:
        """Raises ValueError, naming the value."""
        return RetrievalConfig(**vars(self))


@dataclass(frozen=True)
class KnnOptions:
    """What KNN-LM mixes."""

    neighbours: Annotated[
        int, typer.Option("--neighbours", "-k", help="KNN-LM: nearest contexts, 1 to 1024.")
    ] = KNN.k
    weight: Annotated[
        float, typer.Option("--lambda", help="KNN-LM: weight of the neighbours, from 0 to below 1.")
    ] = KNN.weight
    bandwidth: Annotated[
        float, typer.Option(help="KNN-LM: squared distance over which nearness falls by 1/e.")
    ] = KNN.bandwidth

    def config(self) -> KnnConfig:
        """Raises ValueError, naming the value."""
        return KnnConfig(self.neighbours, self.weight, self.bandwidth)


@dataclass(frozen=True)
class SpeculationOptions:
    """How retrievals are guessed and checked."""

    prefetch: Annotated[
        int | None,
        typer.Option(
            help="What a verification brings beyond its answer: documents (1: none), with --datastore entries that "
            "follow a hit.",
            show_default="20; 10 with --datastore",
        ),
    ] = None
    steps: Annotated[
        int | None, typer.Option(help="Always so many guesses.", show_default="the scheduler's")
    ] = None
    asynchronous: Annotated[bool, typer.Option(help="Write on while a verification runs.")] = (
        SPECULATION.asynchronous
    )
    paper: Annotated[bool, typer.Option("--paper", help="The published scheduler and limits.")] = False

    def config(self, prefetch: int = SPECULATION.prefetch) -> SpeculationConfig:
        """`prefetch` is what is brought where nothing was asked for. Raises ValueError, naming the value."""
        base = SpeculationConfig.paper() if self.paper else SPECULATION
        asked = prefetch if self.prefetch is None else self.prefetch
        config = replace(base, asynchronous=self.asynchronous, prefetch=asked)
        return config if self.steps is None else replace(config, scheduler=False, steps=self.steps)


@dataclass(frozen=True)
class SamplingOptions:
    """How a token is chosen."""

    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0
    seed: Annotated[int, typer.Option(help="For temperatures above 0.")] = 0

    def params(self, max_tokens: int) -> SamplingParams:
        """Raises ValueError, naming the value."""
        from core import SamplingParams

        return SamplingParams(temperature=self.temperature, max_new_tokens=max_tokens, seed=self.seed)
