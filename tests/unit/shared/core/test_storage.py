"""References to files, and which of them Ulak owns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.storage import InvalidRefError, OwnedFolder, Scheme, StorageRef


@pytest.mark.parametrize(
    ("text", "scheme", "bucket", "path"),
    [
        ("file:1.pdf", Scheme.FILE, "", "1.pdf"),
        ("file:invoices/2026/1.pdf", Scheme.FILE, "", "invoices/2026/1.pdf"),
        ("file:faturalar/Şubat – Çiğdem İIıi.pdf", Scheme.FILE, "", "faturalar/Şubat – Çiğdem İIıi.pdf"),
        ("file:%2e%2e/a", Scheme.FILE, "", "%2e%2e/a"),  # nothing is decoded, so this is an odd name and no way up
        ("file:..a/b../...", Scheme.FILE, "", "..a/b../..."),
        ("file:c:/d", Scheme.FILE, "", "c:/d"),
        ("file:a?b#c", Scheme.FILE, "", "a?b#c"),
        ("file:s3://bucket", None, "", ""),  # an empty segment
        ("s3://bucket/key", Scheme.S3, "bucket", "key"),
        ("s3://my.bucket-1/a b/ş.pdf", Scheme.S3, "my.bucket-1", "a b/ş.pdf"),
        ("s3://bucket/" + "k" * 1024, Scheme.S3, "bucket", "k" * 1024),
        ("s3://bucket/" + "k" * 1025, None, "", ""),
        ("s3://bucket/" + "ş" * 513, None, "", ""),  # bytes are counted, not letters
        ("", None, "", ""),
        ("file", None, "", ""),
        ("file:", None, "", ""),
        ("file:.", None, "", ""),
        ("file:..", None, "", ""),
        ("file:../secret", None, "", ""),
        ("file:a/../../secret", None, "", ""),
        ("file:a/..", None, "", ""),
        ("file:./a", None, "", ""),
        ("file:a//b", None, "", ""),
        ("file:a/", None, "", ""),
        ("file:/etc/passwd", None, "", ""),
        ("file:///etc/passwd", None, "", ""),
        ("file://host/a", None, "", ""),
        ("file:a\x00.pdf", None, "", ""),
        ("file:a\nb", None, "", ""),
        ("file:a\x85b", None, "", ""),
        ("file:..\\secret", None, "", ""),
        ("file:a\ud800b", None, "", ""),
        ("FILE:a", None, "", ""),
        (" file:a", None, "", ""),
        ("http://host/a", None, "", ""),
        ("s3:bucket/key", None, "", ""),
        ("s3://bucket", None, "", ""),
        ("s3://bucket/", None, "", ""),
        ("s3:///key", None, "", ""),
        ("s3://ab/key", None, "", ""),
        ("s3://Bucket/key", None, "", ""),
        ("s3://bucket@evil/key", None, "", ""),
        ("s3://bücket/key", None, "", ""),
        ("s3://bucket/../other/key", None, "", ""),
        ("s3://bucket//key", None, "", ""),
    ],
)
def test_references(text: str, scheme: Scheme | None, bucket: str, path: str) -> None:
    if scheme is None:
        with pytest.raises(InvalidRefError):
            StorageRef.parse(text)
    else:
        assert StorageRef.parse(text) == StorageRef(scheme, bucket, path)


@given(st.text())
def test_a_parsed_path_leads_down_only(path: str) -> None:
    for text in (f"file:{path}", f"s3://bucket/{path}"):
        try:
            ref = StorageRef.parse(text)
        except InvalidRefError:
            continue
        assert ref.path == path
        assert not {"", ".", ".."} & set(ref.segments)


@pytest.mark.parametrize(
    "text", ["file:/ada-lovelace", "s3://lovelace", "file:lovelace//x", "lovelace:x", "file:love\n"]
)
def test_no_error_quotes_the_reference(text: str) -> None:
    with pytest.raises(InvalidRefError) as caught:
        StorageRef.parse(text)
    assert "love" not in str(caught.value)


def test_a_repr_shows_no_name() -> None:
    assert "lovelace" not in repr(StorageRef.parse("s3://bucket/ada-lovelace.pdf"))


@pytest.mark.parametrize(
    ("owned", "ref", "expected"),
    [
        ("file:outgoing/", "file:outgoing/a.pdf", True),
        ("file:outgoing/", "file:outgoing/b/c/a.pdf", True),
        ("file:outgoing", "file:outgoing/a.pdf", True),  # the slash may be left out and still is where it ends
        ("file:outgoing", "file:outgoing-other/a.pdf", False),
        ("file:outgoing/", "file:outgoing-other/a.pdf", False),
        ("file:outgoing/", "file:outgoing", False),
        ("file:outgoing/", "file:Outgoing/a.pdf", False),
        ("file:outgoing/", "file:in/outgoing/a.pdf", False),
        ("file:çıkan/ekler/", "file:çıkan/ekler/ş.pdf", True),
        ("file:çıkan/ekler/", "file:çıkan/ş.pdf", False),
        ("file:", "file:anything/at/all", True),
        ("file:", "s3://ulak/a", False),
        ("file:outgoing/", "s3://ulak/outgoing/a.pdf", False),
        ("s3://ulak/", "s3://ulak/a", True),
        ("s3://ulak", "s3://ulak/a", True),
        ("s3://ulak", "s3://ulak-other/a", False),
        ("s3://ulak/outgoing/", "s3://ulak/outgoing/a", True),
        ("s3://ulak/outgoing/", "s3://ulak/a", False),
        ("s3://ulak/outgoing/", "s3://other/outgoing/a", False),
    ],
)
def test_what_an_owned_folder_holds(owned: str, ref: str, expected: bool) -> None:
    assert OwnedFolder.parse(owned).holds(StorageRef.parse(ref)) is expected


@pytest.mark.parametrize(
    "text", ["", "outgoing/", "/", "file:/", "file:../", "file:a//", "s3://", "s3:///a/", "file:a/./"]
)
def test_an_owned_folder_that_is_none(text: str) -> None:
    with pytest.raises(InvalidRefError):
        OwnedFolder.parse(text)
