"""One folder that makes documents searchable: records of the files, and two searches that agree with them.

Knows which embedding model and which chunking filled the folder. Does not know how files are read
(`folder_reading`), how passages are searched (`searches`), or how either is shown.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self

from filelock import FileLock, Timeout
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever

from .bm25 import Bm25Index
from .chunking import ChunkConfig
from .discovery import Skipped, discover, is_below
from .document_records import DocumentRecords, FileRecord
from .embeddings import TransformerEmbeddings
from .faiss_store import FaissStore, model_name
from .folder_reading import FolderReader, Recipe
from .index_summary import FileChanges, IndexSummary, Progress
from .offline_model import default_embeddings, packaged_folder
from .searches import Searches
from .token_counting import approximate_tokens

RECORDS, CACHE, LOCK = "documents.sqlite", "embeddings.sqlite", "indexing.lock"
WORDS_ONLY = ""  # recorded where no embedding model filled the index
LOCK_SECONDS = 1.0

Given = Embeddings | Literal["default"] | None


class DocumentIndex:
    """Opens the index in a folder, or begins one.

    `embeddings` are LangChain embeddings, "default" (the model that filled the index, else the packaged one), or
    None for search by words alone. Without a model everything works by BM25, and `notice` says why.
    `chunking` applies to what is indexed from now on: files that were cut otherwise are read again. None keeps what
    the index has. One process indexes at a time; any number search meanwhile, in what was there before.
    Raises ValueError for an index that another model filled, or that is damaged.
    """

    def __init__(
        self,
        path: str | Path,
        embeddings: Given = "default",
        *,
        chunking: ChunkConfig | None = None,
        device: str = "auto",
    ) -> None:
        self.path = _absolute(path)
        _check_folder(self.path)
        self._records = DocumentRecords(self.path / RECORDS)
        self._lock = threading.Lock()
        self.embeddings, self._reason = self._choose(embeddings, device)
        numbers = self._records.setting("chunking")
        self.chunking = chunking or (ChunkConfig(*map(int, numbers.split())) if numbers else ChunkConfig())
        self._searches = Searches(self.path, self.embeddings if self.embedding_name else None)

    @classmethod
    def open(cls, path: str | Path, embeddings: Given = "default", *, device: str = "auto") -> Self:
        """An index that is there. Raises ValueError where none is."""
        if not (_absolute(path) / RECORDS).is_file():
            raise ValueError(f"there is no index at {path}; make one from your documents first")
        return cls(path, embeddings, device=device)

    # What it is

    @property
    def embedding_name(self) -> str | None:
        """The model that filled the index; None where words alone are searched, or nothing was indexed yet."""
        return self._records.setting("embedding") or None

    @property
    def is_complete(self) -> bool:
        """False before the first indexing and after one that was interrupted."""
        return self._records.setting("complete") == "yes" and self._searches.agree

    @property
    def notice(self) -> str:
        """What a person should know about this index: why it searches by words alone, or that it is incomplete."""
        if self._searches.words is not None and not self.is_complete:
            return "the last indexing was interrupted; index again, only what is missing is done"
        if (
            self._searches.words is not None
            and self._searches.vectors is None
            and self.embeddings is not None
        ):
            return (
                "this index has no vectors yet, so search is by words alone (BM25); index again to add them"
            )
        return self._reason

    @property
    def vectors(self) -> FaissStore | None:
        """The search by meaning; None where there is none."""
        return self._searches.vectors

    @property
    def words(self) -> Bm25Index | None:
        """The search by words; None before the first indexing."""
        return self._searches.words

    def files(self) -> list[FileRecord]:
        """Every file that was read, also those without passages, in the order of paths."""
        return list(self._records.files().values())

    def documents(self) -> Iterator[Document]:
        """Every passage that is searched, in the order of files and places."""
        return self._records.passages()

    def __len__(self) -> int:
        """Number of passages."""
        return 0 if self.words is None else len(self.words)

    def __bool__(self) -> bool:
        """An index is an index, also an empty one."""
        return True

    def retriever(self, k: int = 4) -> BaseRetriever:
        """Search by meaning and words, or by words alone where there are no vectors (see `notice`).

        Raises ValueError where nothing was indexed yet.
        """
        if self.words is None:
            raise ValueError(f"{self.path} has nothing to search yet; index some documents first")
        return self._searches.retriever(k)

    # Changing it

    def index(
        self, paths: Iterable[str | Path] = (), progress: Callable[[Progress], None] = lambda _: None
    ) -> IndexSummary:
        """Brings the index up to date with files and folders; without `paths`, with all that were indexed before.

        Reads what is new or changed below them, forgets what is gone, leaves everything else as it is. Interrupted
        at any moment and called again it ends in the same index. What cannot be read is in the summary.
        Raises ValueError for paths that do not exist, TimeoutError while another process indexes.
        """
        roots = _roots(paths)
        recipe = self._recipe()
        with self._writing():
            before = self._records.files()
            gone: list[Path] = []
            if not roots:
                roots = self._records.roots()
                gone = [root for root in roots if not root.exists() and str(root) in before]  # deleted files
            if not roots:
                raise ValueError(
                    f"{self.path} has no folders to look at again; name files or folders to index"
                )
            found = discover([root for root in roots if root not in gone], excluded=self.path)
            self._begin(roots, gone)
            reader, total = FolderReader(self._records, recipe), len(found.files)
            reader.read(found.files, lambda done, path: progress(Progress("reading", done, total, str(path))))
            progress(Progress("reading", total, total))
            self._forget(roots, {str(path) for path in found.files})
            return self._finish(before, (*found.skipped, *reader.skipped), progress)

    def remove(self, paths: Iterable[str | Path]) -> IndexSummary:
        """Takes files and folders out, whether they still exist or not; they are not looked at again by themselves."""
        roots = _roots(paths)
        self._recipe()
        with self._writing():
            before = self._records.files()
            self._begin(
                [],
                [kept for kept in self._records.roots() if any(is_below(str(kept), root) for root in roots)],
            )
            self._forget(roots, set())
            return self._finish(before, (), lambda _: None)

    def close(self) -> None:
        """Lets go of the files."""
        self._searches.close()
        self._records.close()

    # How it is done

    def _choose(self, given: Given, device: str) -> tuple[Embeddings | None, str]:
        """The embeddings, or None and the reason."""
        recorded = self._records.setting("embedding")
        embeddings, reason = self._default(device) if given == "default" else (given, "")
        if embeddings is None:
            return None, reason or "search is by words alone (BM25), as was asked for"
        if recorded not in (None, WORDS_ONLY, model_name(embeddings)):
            raise ValueError(
                f"{self.path} was made with the embedding model {recorded}, not {model_name(embeddings)}; open it "
                "with that model, or index your documents into a new folder"
            )
        return embeddings, ""

    def _default(self, device: str) -> tuple[Embeddings | None, str]:
        own = self._records.setting("embedding_model")
        if not own:
            return default_embeddings(self.path / CACHE, device=device)
        try:
            return TransformerEmbeddings(own, cache=self.path / CACHE, device=device), ""
        except ValueError as error:
            return (
                None,
                f"the index's embedding model cannot be opened ({error}); search is by words alone (BM25)",
            )

    def _recipe(self) -> Recipe:
        """How files are cut now. Raises ValueError where the model that the index needs is not here."""
        embeddings = self.embeddings
        if self.embedding_name and embeddings is None:
            raise ValueError(
                f"{self.path} was made with the embedding model {self.embedding_name}, which is needed to change it "
                f"({self._reason}); install it, or index into a new folder"
            )
        if not isinstance(embeddings, TransformerEmbeddings):
            return Recipe(self.chunking, approximate_tokens, "approximate")
        if self.chunking.max_tokens > embeddings.max_tokens:
            raise ValueError(
                f"max_tokens={self.chunking.max_tokens} is more than the {embeddings.max_tokens} tokens that "
                f"{embeddings.name} reads; choose at most that many"
            )
        return Recipe(self.chunking, embeddings.token_counter(), embeddings.model_name)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            # The system frees this lock when its process ends, however it ends.
            with self._lock, FileLock(self.path / LOCK, timeout=LOCK_SECONDS):
                yield
        except Timeout as error:
            raise TimeoutError(
                f"another process is indexing into {self.path}; wait until it is done"
            ) from error

    def _begin(self, added: Sequence[Path], removed: Sequence[Path]) -> None:
        embeddings = self.embeddings
        with self._records.change():
            self._records.set("complete", "no")
            self._records.set("chunking", f"{self.chunking.max_tokens} {self.chunking.overlap}")
            self._records.set("embedding", WORDS_ONLY if embeddings is None else model_name(embeddings))
            if isinstance(embeddings, TransformerEmbeddings) and embeddings.folder != packaged_folder():
                self._records.set(
                    "embedding_model", embeddings.model
                )  # the packaged one is found anew anywhere
            for root in added:
                self._records.add_root(root)
            for root in removed:
                self._records.remove_root(root)

    def _forget(self, roots: Sequence[Path], kept: set[str]) -> None:
        with self._records.change():
            for path in self._records.files():
                if path not in kept and any(is_below(path, root) for root in roots):
                    self._records.remove(path)

    def _finish(
        self,
        before: dict[str, FileRecord],
        skipped: Sequence[Skipped],
        progress: Callable[[Progress], None],
    ) -> IndexSummary:
        if self.embeddings is not None and self.vectors is None:  # the first indexing with a model
            self._searches = Searches(self.path, self.embeddings)
        new_passages = self._searches.follow(self._records, progress)
        with self._records.change():
            self._records.set("complete", "yes")
        after = self._records.files()
        return IndexSummary(
            **vars(FileChanges.between(before, after)),
            skipped=tuple(sorted(skipped, key=lambda one: one.path)),
            files=sum(not file.reason for file in after.values()),
            passages=len(self),
            new_passages=new_passages,
            notice=self.notice,
        )


def _absolute(path: str | Path) -> Path:
    if path == "":  # an unset variable of a shell; it would mean the current folder
        raise ValueError("an empty path was given; write . for the current folder")
    return Path(os.path.abspath(Path(path).expanduser()))


def _roots(paths: Iterable[str | Path]) -> list[Path]:
    return [_absolute(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]


def _check_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; give the folder of an index, or a new one")
    if path.is_dir() and not (path / RECORDS).exists():
        others = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
        if others:
            raise ValueError(f"{path} is no index and holds {others[0]!r}; give an empty or a new folder")
