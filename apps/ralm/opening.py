"""From what a command was given to a model that is ready: documents or a datastore first, then the weights.

Knows where the shipped model lies. A wrong path is told before seconds of loading.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from apps.drafter_options import read_options
from apps.places import shipped
from apps.printing import say

from .config import RetrievalConfig, SpeculationConfig
from .knn.config import KnnConfig

if TYPE_CHECKING:
    from core import Engine

    from .knn.knn_lm import KnnLM, Mode
    from .retrieval_lm import RetrievalLM

SHIPPED_MODEL = shipped("models/chat-small")


@dataclass(frozen=True)
class Chosen:
    """Which model, and how it runs; `name` None: the shipped one. `drafter_options` are
    `NAME=VALUE` texts."""

    name: str | None
    drafter: str = "copy"
    device: str = "auto"
    dtype: str = "auto"
    drafter_options: tuple[str, ...] = ()

    def path(self) -> str:
        """Folder or hub id. Raises ValueError where the shipped model is asked for and not there."""
        if self.name is None and not SHIPPED_MODEL.is_dir():
            raise ValueError(
                "no model is shipped with this copy; give --model, a folder or a hub id of a causal model"
            )
        path = str(SHIPPED_MODEL) if self.name is None else os.path.expanduser(self.name)
        if os.path.isdir(path):
            os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a local model asks no network for anything
        return path

    def engine(self) -> Engine:
        """Loads it."""
        path = self.path()
        from transformers.utils import logging

        from core import Engine

        logging.disable_progress_bar()
        options = read_options(self.drafter_options)
        return Engine.from_pretrained(path, self.drafter, self.device, self.dtype, drafter_options=options)


def open_retrieval_lm(
    chosen: Chosen, docs: Path, retriever: str, config: RetrievalConfig, speculation: SpeculationConfig
) -> RetrievalLM:
    """Over documents, which are indexed now as far as they have changed."""
    chosen.path()
    from .corpus import open_corpus

    corpus = open_corpus(docs, retriever, say)
    from .retrieval_lm import RetrievalLM

    return RetrievalLM(chosen.engine(), corpus, config=config, speculation=speculation)


def open_knn_lm(
    chosen: Chosen,
    folder: Path,
    config: KnnConfig,
    speculation: SpeculationConfig,
    mode: Mode = "speculative",
) -> KnnLM:
    """Over a datastore that was built with this model."""
    chosen.path()
    from .knn.datastore import Datastore

    datastore = Datastore(folder)
    say(f"{len(datastore):,} contexts of {datastore.dimension} dimensions ({datastore.kind}) in {folder}")
    from .knn.knn_lm import KnnLM

    return KnnLM(chosen.engine(), datastore, mode=mode, config=config, speculation=speculation)


def sequential(model: RetrievalLM) -> RetrievalLM:
    """The same with plain retrieval."""
    from .retrieval_lm import RetrievalLM

    return RetrievalLM(model.engine, model.retriever, mode="sequential", config=model.config)


def is_knn(docs: Path | None, datastore: Path | None) -> bool:
    """Whether KNN-LM is asked for. Raises ValueError where both or neither are."""
    if (docs is None) == (datastore is None):
        raise ValueError("give either --docs, documents to retrieve, or --datastore, contexts for KNN-LM")
    return datastore is not None
