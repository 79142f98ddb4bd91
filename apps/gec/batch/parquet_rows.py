"""`.parquet`: streamed row group by row group with pyarrow, which is the extra `parquet`.

Knows Arrow tables. A Parquet file has its index at the end and cannot be continued after a crash, so the
unfinished OUT is a folder with one small file per window, merged into large row groups at the end. A rejected
row keeps all its columns and has a null correction. Does not know what is done to the texts.
"""

import importlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .errors import JobStopped, UsageError
from .rows import Done, Row, decoded, text_or_reason

READ_ROWS = 1024
GROUP_ROWS = 64 << 10  # of the merged file; whichever of the two is reached first
GROUP_BYTES = 64 << 20


def arrow(module: str) -> Any:
    """A pyarrow module; pyarrow has no type information, hence Any."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'echodraft[parquet]'") from None


class ParquetRows:
    """The rows of a Parquet file."""

    holds_line_breaks = True

    def __init__(self, path: Path, column: str, max_chars: int) -> None:
        self._pa = arrow("pyarrow")
        try:
            self._file = arrow("pyarrow.parquet").ParquetFile(path)
        except self._pa.ArrowInvalid as error:
            raise UsageError(f"{path} cannot be read as Parquet: {error}") from None
        self._path = path
        self._column = column
        self._max_chars = max_chars
        self._num_read = 0
        self.schema = self._file.schema_arrow
        if self.schema.names.count(column) != 1:
            raise UsageError(f"{path} has no single column {column!r} but {self.schema.names}; see --column")
        self._check_type(self.schema.field(column).type)

    def _check_type(self, found: Any) -> None:
        types = self._pa.types
        value = found.value_type if types.is_dictionary(found) else found
        tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary,
                 types.is_large_binary, types.is_null)  # fmt: skip
        if not any(test(value) for test in tests):
            raise UsageError(f"{self._path}: column {self._column!r} is {found}, not text; see --column")

    def rows(self, skip: int) -> Iterator[Row]:
        number = 0
        for group in range(self._file.num_row_groups):
            num_rows = self._file.metadata.row_group(group).num_rows
            if number + num_rows > skip:
                for batch in self._batches(group):
                    yield from self._rows_of(batch, number, skip)
                    number += batch.num_rows
            else:
                number += num_rows

    def _batches(self, group: int) -> Iterator[Any]:
        try:
            yield from self._file.iter_batches(READ_ROWS, row_groups=[group])
        except (self._pa.ArrowException, OSError) as error:
            raise JobStopped(f"{self._path}: row group {group} cannot be read ({error})") from None

    def _rows_of(self, batch: Any, before: int, skip: int) -> Iterator[Row]:
        start = max(skip - before, 0)
        batch = batch.slice(start)
        texts = batch.column(self._column)
        # As bytes: a value that is not UTF-8 is then one bad row and not an error in the whole batch.
        raws = (
            texts.cast(self._pa.large_string()).cast(self._pa.large_binary())
            if self._is_text(texts)
            else texts
        )
        num_bytes = batch.nbytes // max(batch.num_rows, 1)
        for index, raw in enumerate(raws.to_pylist()):
            self._num_read = before + start + index + 1
            text, reason = text_or_reason(None, 0) if raw is None else decoded(raw)
            if text is not None:
                text, reason = text_or_reason(text, self._max_chars)
            yield Row(self._num_read, batch.slice(index, 1), num_bytes, text, reason)

    def _is_text(self, texts: Any) -> bool:
        types = self._pa.types
        return not (types.is_binary(texts.type) or types.is_large_binary(texts.type))

    def fraction(self) -> float:
        total: int = self._file.metadata.num_rows
        return self._num_read / total if total else 1.0

    def close(self) -> None:
        self._file.close()


class ParquetSink:
    """OUT for Parquet: a folder of parts, then one file."""

    def __init__(self, partial: Path, output: Path, schema: Any, column: str, output_column: str) -> None:
        self._pa = arrow("pyarrow")
        self._parquet = arrow("pyarrow.parquet")
        self._partial = partial
        self._output = output
        self._in_place = column == output_column
        self._num_parts = 0
        field = self._pa.field(output_column, self._pa.string())
        self._index = schema.get_field_index(output_column)
        self._input_schema = schema
        self._schema = schema.set(self._index, field) if self._index >= 0 else schema.append(field)

    def rewind(self, mark: int) -> None:
        self._partial.mkdir(exist_ok=True)
        for path in self._partial.iterdir():
            if path.stem.isdecimal() and int(path.stem) < mark:
                continue
            path.unlink()
        self._num_parts = mark

    def append(self, window: Sequence[Done]) -> int:
        table = self._pa.Table.from_batches([done.row.source for done in window], self._input_schema)
        table = self._with_corrections(table, window)
        self._write(self._part(self._num_parts), [table])
        self._num_parts += 1
        return self._num_parts

    def _with_corrections(self, table: Any, window: Sequence[Done]) -> Any:
        column = self._pa.array([done.corrected for done in window], self._pa.string())
        if self._index < 0:
            return table.append_column(self._schema.field(table.num_columns), column)
        if self._in_place:  # a rejected row keeps what it had, be it UTF-8 or not
            compute = arrow("pyarrow.compute")
            options = compute.CastOptions(self._pa.string(), allow_invalid_utf8=True)
            column = compute.coalesce(column, compute.cast(table.column(self._index), options=options))
        return table.set_column(self._index, self._schema.field(self._index), column)

    def _part(self, number: int) -> Path:
        return self._partial / f"{number:09}.parquet"

    def _write(self, path: Path, tables: Iterator[Any] | Sequence[Any]) -> None:
        with path.open("wb") as file:
            with self._parquet.ParquetWriter(file, self._schema) as writer:
                for table in tables:
                    writer.write_table(table, row_group_size=GROUP_ROWS)
            file.flush()
            os.fsync(file.fileno())

    def publish(self) -> None:
        if not self._partial.is_dir():  # a run that was killed after this step has done it
            return
        merged = self._partial / "merged.parquet"
        self._write(merged, self._groups())
        os.replace(merged, self._output)

    def _groups(self) -> Iterator[Any]:
        """The parts' rows in tables large enough to be row groups, small enough for the memory."""
        pending: list[Any] = []
        num_rows = num_bytes = 0
        for path in sorted(self._partial.glob("[0-9]*.parquet")):
            table = self._parquet.read_table(path)
            if pending and (num_rows + table.num_rows > GROUP_ROWS or num_bytes + table.nbytes > GROUP_BYTES):
                yield self._pa.concat_tables(pending)
                pending, num_rows, num_bytes = [], 0, 0
            pending.append(table)
            num_rows += table.num_rows
            num_bytes += table.nbytes
        if pending:
            yield self._pa.concat_tables(pending)

    def clean(self) -> None:
        shutil.rmtree(self._partial, ignore_errors=True)

    def close(self) -> None:
        """Nothing stays open between windows."""
