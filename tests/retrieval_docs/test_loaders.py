"""Each format gives its text, headings and pages, or says why not."""

from __future__ import annotations

import builtins
import io
import sys
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from docx import Document
from docx.oxml import parse_xml
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from retrieval.loaders import LOADERS, LoadedDocument, UnreadableFileError, load, parse

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def headed(document: LoadedDocument) -> list[tuple[str, str]]:
    """Innermost heading and text of every section."""
    return [
        (section.headings[-1] if section.headings else "", document.text[section.body : section.end].strip())
        for section in document.sections
    ]


def pdf(*pages: str, title: str = "", password: str = "", owner: str = "") -> bytes:
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(width=300, height=300)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if title:
        writer.add_metadata({"/Title": title})
    if password or owner:
        writer.encrypt(password, owner or None, algorithm="AES-256")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def docx(change: Any = lambda document: None) -> bytes:
    document = Document()
    change(document)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_text_is_what_python_reads(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "a note.txt"
    path.write_bytes(mark + "Ünï\r\ncode\rend\n".encode())
    document = load(path)
    assert document.text == path.read_text(encoding="utf-8-sig") == "Ünï\ncode\nend\n"
    assert document.title == "a note"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"ok\nca\xe9 ", "byte 0xe9 at offset 5"),
        (b"\xef\xbb\xbfok \xff", "byte 0xff at offset 6"),
        ("hello".encode("utf-16"), "it is UTF-16; save it as UTF-8"),
        ("hello".encode("utf-32"), "it is UTF-32"),
        (b"\x7fELF\0\0\0", "binary"),
    ],
)
@pytest.mark.parametrize("name", ["n.txt", "n.md", "n.html"])
def test_bytes_that_are_not_utf8_are_named_with_their_offset(content: bytes, reason: str, name: str) -> None:
    with pytest.raises(UnreadableFileError, match=reason):
        parse(content, name)


def test_markdown_keeps_its_text_and_finds_its_headings_only() -> None:
    text = (
        "---\ntitle: 'Declared'\ntags: x\n---\nintro\n\nSetext *title*\n===\n\none\n\n"
        "```\n# no heading\n```\n\n> # quoted\n\n## `code` and [link](http://x) ##\n\ntwo\n#no\n\n# Last"
    )
    document = parse(text.encode(), "n.md")
    assert document.text == text
    assert document.title == "Declared"
    assert headed(document) == [
        ("", "intro"),
        ("Setext title", "one\n\n```\n# no heading\n```\n\n> # quoted"),
        ("code and link", "two\n#no"),
        ("Last", ""),
    ]
    assert document.sections[2].headings == ("Setext title", "code and link")
    assert text[document.sections[1].start :].startswith("Setext *title*")


def test_a_rule_at_the_top_of_markdown_is_no_front_matter() -> None:
    assert headed(parse(b"--- \n\nText\n\n# One\n\nx", "n.md"))[-1] == ("One", "x")


@settings(deadline=None)
@given(st.text(alphabet="# =-`>\n\r\ta*\u2028\x0b\x0cé", max_size=60))
def test_markdown_sections_follow_each_other_to_the_end(text: str) -> None:
    document = parse(text.encode(), "n.md")
    for before, after in pairwise(document.sections):
        assert before.start <= before.body <= before.end == after.start
    if document.sections:
        assert document.sections[-1].end == len(document.text)


def test_html_is_what_a_reader_sees() -> None:
    page = """<!doctype html><html><head><title> The  Title </title><style>p {}</style></head><body>
    <nav>Home | About</nav><!-- no --><script>var x = "<p>no</p>";</script>
    <h1>Install<a class="headerlink">¶</a></h1><p>Use   <b>pip</b>
    and&nbsp;wait.<br>Then run.</p><ul><li>one<li>
 <p>two</p></ul>
    <pre>  keep
    this</pre><h2>Table</h2><table><tr><th>A</th><th>B</th></tr><tr>
 <td>1</td><td>2</td></tr></table>
    <p hidden>secret</p><footer>imprint</footer></body></html>"""
    document = parse(page.encode(), "n.html")
    assert document.title == "The Title"
    assert document.sections[1].headings == ("Install", "Table")
    assert headed(document) == [
        ("Install", "Use pip and wait.\nThen run.\n\n- one\n\n- two\n\n  keep\n    this"),
        ("Table", "A | B\n1 | 2"),
    ]


def test_of_a_page_with_a_main_part_only_that_is_read() -> None:
    page = b"<body><div>menu</div><main><p>Text</p></main><div>ads</div></body>"
    assert parse(page, "n.html").text == "Text"
    assert parse(page.replace(b"main>", b"section>"), "n.html").text == "menu\n\nText\n\nads"


def test_html_is_decoded_as_it_declares() -> None:
    page = '<meta charset="iso-8859-1"><p>caf\u00e9 \u201cquoted\u201d</p>'.encode("cp1252")
    assert parse(page, "n.htm").text == "café “quoted”"
    assert parse('<meta charset="no-such"><p>é</p>'.encode(), "n.htm").text == "é"


def test_html_may_nest_deeper_than_pythons_stack() -> None:
    assert parse(b"<div>" * 5000 + b"deep" + b"</div>" * 5000, "n.html").text == "deep"


def test_pdf_pages_are_numbered() -> None:
    document = parse(pdf("First page", "Second page", title="A Manual"), "scan.pdf")
    assert document.title == "A Manual"
    assert document.text == "First page\n\nSecond page"
    assert [document.page_at(document.text.index(word)) for word in ("First", "Second")] == [1, 2]
    assert parse(pdf("x", title="Microsoft Word - thesis.doc"), "thesis.pdf").title == "thesis"


def test_pdf_opens_without_a_password_where_none_is_needed_to_read() -> None:
    assert parse(pdf("Open to all", owner="secret"), "n.pdf").text == "Open to all"
    with pytest.raises(UnreadableFileError, match="encrypted"):
        parse(pdf("Not open", password="secret"), "n.pdf")


def test_pdf_without_text_and_damaged_pdf_say_so() -> None:
    with pytest.raises(UnreadableFileError, match="scanned"):
        parse(pdf(""), "n.pdf")
    whole = pdf("Some text")
    for cut in (b"", b"%PDF-1.4", whole[: len(whole) // 2], b"<html>"):
        with pytest.raises(UnreadableFileError, match=r"no readable PDF|no text"):
            parse(cut, "n.pdf")


def test_docx_gives_headings_tables_and_what_word_shows() -> None:
    def write(document: Any) -> None:
        document.add_paragraph("Before.")
        document.add_heading("Part", 1)
        document.add_heading("Chapter", 2)
        document.add_paragraph("Line\tone").add_run().add_break()
        table = document.add_table(2, 2)
        for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
            cell.text = f"c{number}"
        table.rows[1].cells[1].add_table(1, 1).rows[0].cells[0].text = "inner"
        for inside in (
            f"<w:p {WORD}><w:ins><w:r><w:t>Inserted</w:t></w:r></w:ins>"
            "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>",
            f"<w:sdt {WORD}><w:sdtContent><w:p><w:r><w:t>Controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>",
        ):
            document.element.body.insert(-1, parse_xml(inside))

    document = parse(docx(write), "report.docx")
    assert document.title == "Part"
    assert [section.headings for section in document.sections] == [(), ("Part",), ("Part", "Chapter")]
    assert headed(document)[2][1] == "Line\tone\n\nc0 | c1\nc2 | c3 inner\nInserted\n\nControlled"


def test_docx_title_comes_from_the_properties() -> None:
    def write(document: Any) -> None:
        document.core_properties.title = "Annual Report"
        document.add_paragraph("Text")

    assert parse(docx(write), "n.docx").title == "Annual Report"


def test_docx_that_is_none_says_so() -> None:
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("hello.txt", "hello")
    whole = docx()
    for content in (b"", b"PK\x03\x04", other.getvalue(), whole[: len(whole) // 2]):
        with pytest.raises(UnreadableFileError, match=r"no readable \.docx"):
            parse(content, "n.docx")
    with pytest.raises(UnreadableFileError, match="encrypted, or an old"):
        parse(b"\xd0\xcf\x11\xe0" + bytes(600), "n.docx")


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(LOADERS)), st.binary(max_size=80), st.integers(0, 2000))
def test_no_bytes_crash_a_loader(suffix: str, noise: bytes, place: int) -> None:
    whole = {".pdf": _PDF, ".docx": _DOCX}.get(suffix, b"# A\n<p>b</p>\n")
    at = place % len(whole)
    for content in (noise, whole[:at] + noise + whole[at + len(noise) :]):
        try:
            document = parse(content, f"n{suffix}")
        except UnreadableFileError:
            continue
        document.text.encode()
        assert "\0" not in document.text


_PDF, _DOCX = pdf("Some text on a page"), docx(lambda document: document.add_paragraph("Some text"))


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    original = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] == "pypdf":
            raise ModuleNotFoundError("No module named 'pypdf'", name="pypdf")
        return original(name, *rest, **named)

    monkeypatch.delitem(sys.modules, "retrieval.loaders.pdf", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "n.pdf").write_bytes(_PDF)
    with pytest.raises(ImportError, match=r"\.pdf files need pypdf: pip install 'echodraft\[documents\]'"):
        load(tmp_path / "n.pdf")


@pytest.mark.parametrize("name", ["n.png", "README"])
def test_other_kinds_of_file_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UnreadableFileError, match="is not a format that is read"):
        load(tmp_path / name)


def test_a_rule_with_text_below_it_is_no_front_matter_either() -> None:
    text = "---\n\n# Intro\n\nThe password is swordfish.\n\n---\n\n# Two\n\nMore."
    found = headed(parse(text.encode(), "a.md"))
    assert found[1:] == [("Intro", "The password is swordfish.\n\n---"), ("Two", "More.")]
    assert "Lost?" in headed(parse(b"---\n# One\n\nLost?\n\n---\n\nMore.", "a.md"))[1][1]
    assert parse(b"---\ntitle: A\nlayout: b\n---\nText.", "a.md").title == "A"
    assert headed(parse(b"---\n---\nText.", "a.md")) == [("", "Text.")]


@pytest.mark.parametrize("page", [b"<p>x <![foo[ here</p>", b"<meta charset=hex><p>x</p>"])
def test_html_that_the_parser_rejects_is_named(page: bytes) -> None:
    with pytest.raises(UnreadableFileError, match="no readable HTML"):
        parse(page, "a.html")


def test_docx_without_a_body_is_named() -> None:
    made, bare = io.BytesIO(), io.BytesIO()
    Document().save(made)
    with zipfile.ZipFile(made) as whole, zipfile.ZipFile(bare, "w") as copy:
        for name in whole.namelist():
            copy.writestr(name, f"<w:document {WORD}/>" if name == "word/document.xml" else whole.read(name))
    with pytest.raises(UnreadableFileError, match=r"no readable \.docx"):
        parse(bare.getvalue(), "a.docx")
