"""Which files a job reads and writes, by their names.

Knows the table of endings and how to open the two ends of a job. Does not know what happens between them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from .byte_sink import ByteSink
from .csv_rows import CsvRows
from .errors import UsageError
from .jsonl_rows import JsonlRows
from .parquet_rows import ParquetRows, ParquetSink
from .rows import Sink, Source
from .text_file import TextFile
from .text_rows import TextRows

Kind = Literal["txt", "jsonl", "csv", "parquet"]
SUPPORTED = ".txt, .jsonl, .csv (each also with .gz) and .parquet"


@dataclass(frozen=True)
class FileType:
    """Format and compression of a file."""

    kind: Kind
    gzipped: bool

    @classmethod
    def of(cls, path: Path) -> "FileType":
        """Read the type off the name."""
        name = path.name.lower()
        gzipped = name.endswith(".gz")
        ending = name.removesuffix(".gz").rpartition(".")[2]
        for kind in get_args(Kind):
            if ending == kind and not (kind == "parquet" and gzipped):
                return cls(kind, gzipped)
        raise UsageError(f"{path}: the name does not end in a supported format: {SUPPORTED}")


@dataclass(frozen=True)
class Columns:
    """Where the text is and where the correction goes; `.txt` has neither."""

    text: str
    output: str


def open_ends(
    source_path: Path, partial: Path, output: Path, columns: Columns, max_chars: int
) -> tuple[Source, Sink]:
    """Open IN and prepare the unfinished OUT; nothing is written yet."""
    source_type, output_type = FileType.of(source_path), FileType.of(output)
    if source_type.kind != output_type.kind:
        raise UsageError(
            f"IN is .{source_type.kind} and OUT .{output_type.kind}: a job keeps the format; "
            f"name OUT something.{source_type.kind}"
            + ("" if source_type.kind == "parquet" else " or .gz of it")
        )
    if source_type.kind == "parquet":
        rows = ParquetRows(source_path, columns.text, max_chars)
        return rows, ParquetSink(partial, output, rows.schema, columns.text, columns.output)
    file = TextFile(source_path, source_type.gzipped)
    try:
        file.refuse_utf16()
        source = _line_source(file, source_type.kind, columns, max_chars)
    except BaseException:
        file.close()
        raise
    return source, ByteSink(partial, output, source, output_type.gzipped)


def _line_source(
    file: TextFile, kind: Kind, columns: Columns, max_chars: int
) -> TextRows | JsonlRows | CsvRows:
    if kind == "txt":
        return TextRows(file, max_chars)
    if kind == "jsonl":
        return JsonlRows(file, columns.text, columns.output, max_chars)
    return CsvRows(file, columns.text, columns.output, max_chars)
