"""A line by itself: its value, nothing, or what is wrong with it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from services.ingest.admin.imports.chunk import CHUNK_BYTES, CHUNK_LINES, Chunk, read_line
from services.ingest.admin.imports.preferences import PreferencesKind
from services.ingest.admin.imports.recipients import RecipientsKind
from services.ingest.admin.imports.suppressions import SuppressionsKind
from shared.postgres.import_run import BadLine

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "line", "code", "path"),
    [
        pytest.param(RecipientsKind(), None, "line_too_long", "", id="too-long"),
        pytest.param(RecipientsKind(), b"{", "malformed_json", "", id="half"),
        pytest.param(RecipientsKind(), b"\xff{}", "malformed_json", "", id="no-utf-8"),
        pytest.param(RecipientsKind(), b'{"userId": NaN}', "malformed_json", "", id="nan"),
        pytest.param(RecipientsKind(), b"[]", "invalid", "", id="no-object"),
        pytest.param(RecipientsKind(), b"{}", "invalid", "userId", id="nobody"),
        pytest.param(RecipientsKind(), b'{"userId": 1, "a\\u001bb": 1}', "invalid", "a?b", id="field-of-a-terminal"),
        pytest.param(RecipientsKind(), b'{"userId": 1, "phone": "0212"}', "invalid", "phone", id="phone"),
        pytest.param(
            RecipientsKind(), b'{"userId": 1, "attributes": {"a": "\\u0000"}}', "invalid", "attributes", id="nul"
        ),
        pytest.param(
            PreferencesKind(),
            b'{"userId": 1, "preferences": {"types": {"T": {"FAX": true}}}}',
            "invalid",
            "preferences.types.T.FAX",
            id="channel",
        ),
        pytest.param(
            SuppressionsKind(), b'{"channel": "SMS", "address": "a@example.com"}', "invalid", "address", id="no-number"
        ),
    ],
)
def test_bad_lines(kind: Any, line: bytes | None, code: str, path: str) -> None:
    found = read_line(kind, 7, line, NOW)
    assert isinstance(found, BadLine)
    assert (found.line, found.code, found.path) == (7, code, path)
    assert found.detail, "says what to do"


def test_more_than_one_thing_wrong_is_told_with_the_first() -> None:
    found = read_line(RecipientsKind(), 1, b'{"email": 1, "phone": 2, "userId": "7"}', NOW)
    assert "(and 1 more)" in found.detail


@pytest.mark.parametrize("line", [b"", b"  ", b"\t"])
def test_a_blank_line_is_nothing(line: bytes) -> None:
    assert read_line(RecipientsKind(), 1, line, NOW) is None


def test_a_byte_order_mark_before_the_first_line_alone() -> None:
    line = b'\xef\xbb\xbf{"userId": "7"}'
    assert read_line(RecipientsKind(), 1, line, NOW).profile.external_id == "7"
    assert read_line(RecipientsKind(), 2, line, NOW).code == "malformed_json"


def test_a_chunk_is_full_of_lines_or_of_bytes() -> None:
    assert [full_after(CHUNK_LINES - 1, b"{}"), full_after(CHUNK_LINES, None)] == [False, True]
    long = b"x" * 2**15
    assert [full_after(CHUNK_BYTES // 2**15 - 1, long), full_after(CHUNK_BYTES // 2**15, long)] == [False, True]


def full_after(count: int, line: bytes | None) -> bool:
    chunk = Chunk(1)
    for _ in range(count):
        chunk.add(line)
    return chunk.full
