"""`.jsonl`: a line is a JSON object, one of its keys holds the text.

Knows how to add a key to an object without touching the rest of its line: numbers, spacing and repeated keys
stay as they were written. A rejected row gets `null` as its correction. A line that is no JSON object would
make OUT unreadable: `{"corrected": null}` takes its place, so that line n of OUT still belongs to line n of
IN, and the rejects file keeps the content. A blank line stays blank.
"""

import json
from collections.abc import Iterator
from itertools import islice

from .rows import Done, Row, decoded, json_type, text_or_reason
from .text_file import BOM, TextFile, line_end


class JsonlRows:
    """The lines of a JSONL file as rows, and back."""

    preamble = b""
    holds_line_breaks = True

    def __init__(self, file: TextFile, column: str, output_column: str, max_chars: int) -> None:
        self._file = file
        self._column = column
        self._output_column = output_column
        self._max_chars = max_chars

    def rows(self, skip: int) -> Iterator[Row]:
        for number, line in enumerate(islice(self._file.lines(), skip, None), skip + 1):
            yield self._row(number, line)

    def _row(self, number: int, line: bytes) -> Row:
        body = (line.removeprefix(BOM) if number == 1 else line).strip()
        if not body:
            return Row(number, line, len(line), text="")
        record, reason = parsed_object(body)
        if record is None:
            return Row(number, line, len(line), reason=reason, lost=line.rstrip(b"\r\n"))
        if self._column not in record:
            return Row(number, line, len(line), reason=f"missing column {self._column!r}")
        text, reason = text_or_reason(record[self._column], self._max_chars)
        return Row(number, line, len(line), text, reason)

    def fraction(self) -> float:
        return self._file.fraction()

    def close(self) -> None:
        self._file.close()

    def render(self, done: Done) -> bytes:
        line: bytes = done.row.source
        if not line.strip().removeprefix(BOM):
            return line
        if done.row.lost is not None:
            return dumped({self._output_column: None}) + line_end(line)
        if done.corrected is None and self._output_column == self._column:
            return line
        return self._with_correction(line, done.corrected)

    def _with_correction(self, line: bytes, corrected: str | None) -> bytes:
        body = line.rstrip()
        record = json.loads(body.removeprefix(BOM).decode())
        if self._output_column in record:
            mark = BOM if body.startswith(BOM) else b""
            return mark + dumped({**record, self._output_column: corrected}) + line_end(line)
        member = dumped({self._output_column: corrected})[
            1:
        ]  # `"corrected": "..."}`, to replace the last brace
        return body[:-1].rstrip() + (b", " if record else b"") + member + line_end(line)


def parsed_object(body: bytes) -> tuple[dict[str, object] | None, str | None]:
    """The JSON object on a line, or why there is none."""
    text, reason = decoded(body)
    if text is None:
        return None, reason
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return None, f"not JSON: {error.msg} at character {error.pos}"
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        return None, f"not readable as JSON: {error}"
    if not isinstance(value, dict):
        return None, f"not a JSON object but {json_type(value)}"
    return value, None


def dumped(record: dict[str, object]) -> bytes:
    """One line of JSON in UTF-8; escapes only where another column holds what UTF-8 cannot."""
    try:
        return json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(record).encode()
