"""Each format says the same edits in its own way."""

from __future__ import annotations

import json

from apps.gec.formats import FORMATS, GREEN, Document
from apps.gec.results import SentenceCorrection

SENTENCES = [
    SentenceCorrection("She go to the the school.", "She goes to the school.", 2),
    SentenceCorrection("Fine.", "Fine.", 28),
]
TEXT = "  She go to the the school.\nFine.\n"


def rendered(name: str, **options: object) -> str:
    return "".join(FORMATS[name](Document(TEXT, **options), iter(SENTENCES)))  # type: ignore[arg-type]


def test_text_keeps_what_lies_between() -> None:
    assert rendered("text") == "  She goes to the school.\nFine.\n"


def test_diff_marks_words_without_their_space() -> None:
    assert rendered("diff") == "  She [-go-]{+goes+} to [-the-] the school.\nFine.\n"


def test_diff_on_a_terminal_is_coloured() -> None:
    shown = rendered("diff", colour=True)
    assert GREEN in shown
    assert "{+" not in shown


def test_json_offsets_cut_the_original_out_of_source_and_input() -> None:
    records = [json.loads(line) for line in rendered("json", index=3, offset=100).splitlines()]
    assert [r["input"] for r in records] == [3, 3]
    for record in records:
        assert TEXT[record["start"] - 100 : record["end"] - 100] == record["source"]
        for edit in record["edits"]:
            assert record["source"][edit["start"] : edit["end"]] == edit["original"]
            assert TEXT[edit["input_start"] - 100 : edit["input_end"] - 100] == edit["original"]
    assert [e["type"] for e in records[0]["edits"]] == ["R:VERB:SVA", "U:DET"]
    assert records[0]["edits"][0]["operation"] == "R"


def test_m2_has_tokens_and_token_spans() -> None:
    assert rendered("m2") == (
        "S She go to the the school .\n"
        "A 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0\n"
        "A 3 4|||U:DET||||||REQUIRED|||-NONE-|||0\n\n"
        "S Fine .\n"
        "A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0\n\n"
    )
