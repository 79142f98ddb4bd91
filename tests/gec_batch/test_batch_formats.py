"""What stands in OUT, for every format."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batch_stub import StubCorrector
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.gec.batch import JobConfig, run_job
from apps.gec.batch.windows import WindowSize

Correct = Callable[..., Any]
BOM = b"\xef\xbb\xbf"


def rejects(output: Path) -> list[dict[str, Any]]:
    path = output.with_name(output.name + ".rejects.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    "content", [b"teh a\r\n\r\nteh b\r\n", b"teh a\n\nteh b", BOM + b"teh a\n", b"\n", b" teh\t\x0c\n", b""]
)
def test_txt_keeps_everything_but_the_corrections_byte_for_byte(content: bytes, correct: Correct) -> None:
    report, output = correct("in.txt", content, "out.txt")
    assert output.read_bytes() == content.replace(b"teh", b"the")
    assert report.rejected == 0


def test_bad_txt_lines_stay_as_they_were_and_are_listed_with_number_and_reason(correct: Correct) -> None:
    content = b"teh\ncaf\xe9 teh\n" + b"teh " * 10 + b"\nteh REFUSE\nteh BREAK\nteh"
    report, output = correct("in.txt", content, "out.txt", max_chars=20)
    assert output.read_bytes() == b"the\ncaf\xe9 teh\n" + b"teh " * 10 + b"\nteh REFUSE\nteh BREAK\nthe"
    assert (report.rows, report.changed, report.rejected) == (6, 2, 4)
    reasons = {entry["row"]: entry["reason"] for entry in rejects(output)}
    assert list(reasons) == [2, 3, 4, 5]
    assert reasons[2] == "not UTF-8: byte 0xE9 at offset 3"
    assert reasons[3] == "too long: 40 characters, --max-chars is 20"
    assert reasons[4] == "refused by the corrector: REFUSE is refused"
    assert reasons[5] == "the correction changes its line breaks"


def test_txt_lines_with_carriage_returns_of_their_own_are_corrected(correct: Correct) -> None:
    report, output = correct("in.txt", b"teh\rteh\r\r\nteh\n", "out.txt")
    assert output.read_bytes() == b"the\rthe\r\r\nthe\n"
    assert report.rejected == 0


def test_a_job_without_bad_rows_leaves_no_rejects_file(correct: Correct) -> None:
    _, output = correct("in.txt", b"teh\n", "out.txt")
    assert not output.with_name("out.txt.rejects.jsonl").exists()


def test_jsonl_keeps_the_rest_of_each_line_as_it_was_written(correct: Correct) -> None:
    content = BOM + '{"n": 1.50,  "text":"teh é", "n": 1e5 }\r\n\n{"text": "teh"}'.encode()
    _, output = correct("in.jsonl", content, "out.jsonl")
    lines = output.read_bytes().split(b"\n")
    assert lines[0] == BOM + '{"n": 1.50,  "text":"teh é", "n": 1e5, "corrected": "the é"}\r'.encode()
    assert lines[1:] == [b"", b'{"text": "teh", "corrected": "the"}']


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"txt": "teh"}', "missing column 'text'"),
        (b"{}", "missing column 'text'"),
        (b'{"text": null}', "not text: null"),
        (b'{"text": 5}', "not text: a number"),
        (b'{"text": true}', "not text: true or false"),
        (b'{"text": "a \\ud800"}', "not Unicode text: lone surrogate U+D800 at character 2"),
    ],
)
def test_a_bad_jsonl_row_stays_with_a_null_correction(line: bytes, reason: str, correct: Correct) -> None:
    _, output = correct("in.jsonl", line + b'\n{"text": "teh"}\n', "out.jsonl")
    first, second = output.read_bytes().splitlines()
    assert json.loads(first) == {**json.loads(line), "corrected": None}
    assert json.loads(second)["corrected"] == "the"
    assert rejects(output) == [{"row": 1, "reason": reason}]


@pytest.mark.parametrize(
    ("line", "raw"),
    [
        (b"{broken", {"raw": "{broken"}),
        (b"[1]", {"raw": "[1]"}),
        (b'{"text": "caf\xe9"}', {"raw_base64": "eyJ0ZXh0IjogImNhZukifQ=="}),
        (b"[" * 100_000, {"raw": "[" * 100_000}),
        (b'{"n": ' + b"1" * 5000 + b"}", {"raw": '{"n": ' + "1" * 5000 + "}"}),
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_kept_in_the_rejects_and_OUT_stays_readable(
    line: bytes, raw: dict[str, str], correct: Correct
) -> None:
    _, output = correct("in.jsonl", line + b'\n{"text": "teh"}\n', "out.jsonl")
    assert [json.loads(row) for row in output.read_bytes().splitlines()] == [
        {"corrected": None},
        {"text": "teh", "corrected": "the"},
    ]
    (entry,) = rejects(output)
    assert raw.items() <= entry.items()


def test_jsonl_can_be_corrected_in_place(correct: Correct) -> None:
    content = b'{"text": "teh", "n": 1}\n{"text": 5}\n'
    _, output = correct("in.jsonl", content, "out.jsonl", output_column="text")
    assert output.read_bytes() == b'{"text": "the", "n": 1}\n{"text": 5}\n'


def test_csv_keeps_quoted_line_breaks_the_byte_order_mark_and_crlf(correct: Correct) -> None:
    content = BOM + b'text,note\r\n"teh\nline",a\r\n"teh, too",caf\xe9\r\n\r\nteh,"say ""x"""\r\n'
    report, output = correct("in.csv", content, "out.csv")
    assert output.read_bytes() == (
        BOM + b'text,note,corrected\r\n"teh\nline",a,"the\nline"\r\n"teh, too",caf\xe9,"the, too"\r\n\r\n'
        b'teh,"say ""x""",the\r\n'
    )
    assert (report.rows, report.rejected) == (4, 0)


def test_bad_csv_rows_stay_with_an_empty_correction(correct: Correct) -> None:
    content = b"id,text,note\n1,teh,a\n2\n3,teh\n4,teh,a,b\n5,caf\xe9,a\n"
    _, output = correct("in.csv", content, "out.csv")
    assert output.read_bytes() == (
        b"id,text,note,corrected\n1,teh,a,the\n2,,,\n3,teh,,the\n4,teh,a,,b\n5,caf\xe9,a,\n"
    )
    assert [(entry["row"], entry["reason"]) for entry in rejects(output)] == [
        (2, "missing column: the row has 1 cells"),
        (4, "4 cells where the header names 3"),
        (5, "not UTF-8: byte 0xE9 at offset 3"),
    ]


def test_a_csv_row_that_cannot_be_told_into_cells_is_kept_in_the_rejects(correct: Correct) -> None:
    report, output = correct("in.csv", b"id,text\n1,teh\rcat\n2,teh\n", "out.csv")
    assert output.read_bytes() == b"id,text,corrected\n,,\n2,teh,the\n"
    assert (report.rows, rejects(output)[0]["row"], rejects(output)[0]["raw"]) == (2, 1, "1,teh\rcat\n")


def test_csv_can_be_corrected_in_place_and_keeps_rejected_cells(correct: Correct) -> None:
    _, output = correct("in.csv", b"text,n\nteh,1\nteh REFUSE,2\n", "out.csv", output_column="text")
    assert output.read_bytes() == b"text,n\nthe,1\nteh REFUSE,2\n"


@pytest.mark.parametrize("name", ["x.txt", "x.jsonl", "x.csv", "x.txt.gz", "x.jsonl.gz", "x.csv.gz"])
def test_empty_input_gives_empty_output(name: str, correct: Correct) -> None:
    report, output = correct(name, gzip.compress(b"") if name.endswith("gz") else b"", f"out-{name}")
    written = output.read_bytes()
    assert (gzip.decompress(written) if name.endswith("gz") else written) == b""
    assert (report.rows, report.rejected) == (0, 0)


def test_a_csv_header_without_rows_gives_a_header(correct: Correct) -> None:
    assert correct("in.csv", b"text\n", "out.csv")[1].read_bytes() == b"text,corrected\n"


@settings(max_examples=40, deadline=None)  # each is a whole job, and waits for the disk
@given(st.lists(st.tuples(st.text(), st.text()), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_any_csv_reads_back_as_the_same_cells(rows: list[tuple[str, str]], end: str) -> None:
    from tempfile import TemporaryDirectory

    written = io.StringIO(newline="")
    csv.writer(written, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("a", "text"), *rows])
    with TemporaryDirectory() as folder:
        source, output = Path(folder, "in.csv"), Path(folder, "out.csv")
        source.write_bytes(written.getvalue().encode())
        run_job(JobConfig(source, output), StubCorrector())
        found = list(csv.reader(io.StringIO(output.read_bytes().decode(), newline="")))
    texts = [text.replace("teh", "the").replace("BREAK", "\n") for _, text in rows]
    assert found == [["a", "text", "corrected"], *([a, b, c] for (a, b), c in zip(rows, texts, strict=True))]


def test_parquet_keeps_columns_types_and_bad_rows(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    table = arrow.table({
        "when": arrow.array([1, 2, 3, 4], arrow.timestamp("us")),
        "text": arrow.array([b"teh", None, b"caf\xe9", b"teh REFUSE"], arrow.binary()),
        "tags": [["a"], [], None, ["b", "c"]],
    })  # fmt: skip
    parquet.write_table(table.replace_schema_metadata({"origin": "here"}), source, row_group_size=3)
    report = run_job(JobConfig(source, output), StubCorrector())
    found = parquet.read_table(output)
    assert found.select(["when", "text", "tags"]).equals(table)
    assert found["corrected"].to_pylist() == ["the", None, None, None]
    assert found.schema.metadata == {b"origin": b"here"}
    assert report.rejected == 3
    assert [entry["row"] for entry in rejects(output)] == [2, 3, 4]


def test_parquet_can_be_corrected_in_place_and_keeps_rejected_texts(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    parquet.write_table(arrow.table({"text": ["teh", None, "teh REFUSE", "x" * 99]}), source)
    run_job(JobConfig(source, output, output_column="text", max_chars=50), StubCorrector())
    assert parquet.read_table(output)["text"].to_pylist() == ["the", None, "teh REFUSE", "x" * 99]


def test_a_parquet_file_without_rows_gives_one_without_rows(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    parquet.write_table(arrow.table({"text": arrow.array([], arrow.string())}), source)
    run_job(JobConfig(source, output), StubCorrector())
    assert parquet.read_table(output).schema.names == ["text", "corrected"]


def test_batches_hold_texts_of_similar_length_and_rows_come_out_in_order(tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join("x" * (number * 7 % 40 + 1) + "\n" for number in range(40)))
    stub = StubCorrector()
    run_job(JobConfig(source, output, batch_size=10, min_window=40), stub)
    assert [sorted(map(len, batch)) for batch in stub.batches] == [
        list(range(a, a + 10)) for a in (1, 11, 21, 31)
    ]
    assert output.read_text() == source.read_text()


def test_a_window_is_as_large_as_the_time_between_commits_allows() -> None:
    size = WindowSize(smallest=128, largest=2048, seconds=10)
    sizes = [size.num_rows]
    for seconds in (1.0, 25.6, 200.0):
        size.observe(size.num_rows, seconds)
        sizes.append(size.num_rows)
    assert sizes == [128, 1280, 500, 128]
