"""`.csv`: a record is a row, the first record names the columns.

Knows the standard library's default dialect: commas, double quotes, line breaks inside quotes. Cells keep
their content byte for byte, also where it is not UTF-8; quotes that are not needed are not kept. A rejected
row stays in place with an empty correction; where not even its cells can be told, they are empty too and the
rejects file keeps its bytes. A blank line stays blank.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from .errors import JobStopped, UsageError
from .rows import Done, Row, decoded, text_or_reason
from .text_file import BOM, TextFile, line_end

MAX_CELL_CHARS = 16 << 20  # a quote that is never closed would otherwise swallow the file into memory


@dataclass(frozen=True)
class BadRecord:
    """Bytes in the place of a record that cannot be told into cells."""

    raw: bytes
    reason: str


class CsvRows:
    """The records of a CSV file as rows, and back."""

    holds_line_breaks = True

    def __init__(self, file: TextFile, column: str, output_column: str, max_chars: int) -> None:
        self._file = file
        self._max_chars = max_chars
        csv.field_size_limit(MAX_CELL_CHARS)
        self._mark = b""
        self._consumed: list[bytes] = []  # the lines of the record that is being read
        self._line_end = "\n"
        self._records = csv.reader(self._decoded_lines())
        header = self._next_record()
        if isinstance(header, BadRecord):
            raise UsageError(f"{file.path}: the first line names no columns; {header.reason}")
        is_empty = header is None
        header = header or []
        self._num_columns = len(header)
        if column not in header and not is_empty:
            raise UsageError(f"{file.path} has no column {column!r} but {header}; name one with --column")
        self._column = 0 if is_empty else header.index(column)
        self._output = header.index(output_column) if output_column in header else len(header)
        self._in_place = column == output_column
        if self._output == len(header):
            header = [*header, output_column]
        self.preamble = b"" if is_empty else self._mark + self._written(header)

    def _decoded_lines(self) -> Iterator[str]:
        for number, line in enumerate(self._file.lines()):
            if number == 0:
                self._mark = BOM if line.startswith(BOM) else b""
                self._line_end = line_end(line).decode() or "\n"
                line = line.removeprefix(BOM)
            self._consumed.append(line)
            yield line.decode(errors="surrogateescape")  # bad bytes must come out again as they were

    def _next_record(self) -> list[str] | BadRecord | None:
        self._consumed = []
        try:
            return next(self._records, None)
        except csv.Error as error:
            if "field larger than" not in str(error):
                # A carriage return outside quotes. The reader goes on with the next line.
                return BadRecord(b"".join(self._consumed), f"not CSV: {error}")
            raise JobStopped(
                f"{self._file.path}: cannot be read as CSV near line {self._records.line_num} ({error}); "
                "is a quote never closed?"
            ) from None

    def _remaining(self) -> Iterator[list[str] | BadRecord]:
        while (record := self._next_record()) is not None:
            yield record

    def rows(self, skip: int) -> Iterator[Row]:
        for number, record in enumerate(islice(self._remaining(), skip, None), skip + 1):
            if isinstance(record, BadRecord):
                empty = [""] * self._num_columns
                yield Row(number, empty, len(record.raw), reason=record.reason, lost=record.raw)
            else:
                yield self._row(number, record)

    def _row(self, number: int, cells: list[str]) -> Row:
        num_bytes = sum(map(len, cells)) + 64 * len(cells)
        if not cells:
            return Row(number, cells, num_bytes, text="")
        if len(cells) > self._num_columns:
            too_many = f"{len(cells)} cells where the header names {self._num_columns}"
            return Row(number, cells, num_bytes, reason=too_many)
        if len(cells) <= self._column:
            return Row(number, cells, num_bytes, reason=f"missing column: the row has {len(cells)} cells")
        text, reason = decoded(cells[self._column].encode(errors="surrogateescape"))
        if text is not None:
            text, reason = text_or_reason(text, self._max_chars)
        return Row(number, cells, num_bytes, text, reason)

    def fraction(self) -> float:
        return self._file.fraction()

    def close(self) -> None:
        self._file.close()

    def render(self, done: Done) -> bytes:
        cells: list[str] = list(done.row.source)
        if not cells or (done.corrected is None and self._in_place):
            return self._written(cells)
        cells += [""] * (self._num_columns - len(cells))
        if self._output < self._num_columns:
            cells[self._output] = done.corrected or ""
        else:
            cells.insert(self._output, done.corrected or "")  # before the cells that a row has too many
        return self._written(cells)

    def _written(self, cells: list[str]) -> bytes:
        text = io.StringIO(newline="")
        csv.writer(text).writerow(cells)  # with CRLF, or Python before 3.13 would not quote a cell with a CR
        return (text.getvalue().removesuffix("\r\n") + self._line_end).encode(errors="surrogateescape")
