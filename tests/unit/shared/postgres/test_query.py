"""Queries files are read by name, and a malformed one is refused with its fault."""

import re
from pathlib import Path
from typing import Final

import pytest

import shared.postgres.query
from shared.postgres.errors import QueryFileError
from shared.postgres.query import load_queries, parse_queries

FILES: Final = sorted(path.stem for path in (Path(shared.postgres.query.__file__).parent / "queries").glob("*.sql"))
TEXT = """-- What this file is for.

-- name: one
-- Why it is there.
SELECT 1

-- name: two
SELECT $1::text,
       '-- name: not_a_head'
"""


def test_blocks_by_name_keep_head_and_comments() -> None:
    queries = parse_queries(TEXT, "x.sql")
    assert dict(queries) == {
        "one": "-- name: one\n-- Why it is there.\nSELECT 1",
        "two": "-- name: two\nSELECT $1::text,\n       '-- name: not_a_head'",
    }


def test_a_file_may_begin_with_a_head() -> None:
    assert list(parse_queries("-- name: a\nSELECT 1", "x.sql")) == ["a"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1\n-- name: a\nSELECT 2", "before the first"),
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2", "a is there twice"),
        ("-- name: a\n-- only words\n-- name: b\nSELECT 2", "a has no statement"),
        ("-- name:\nSELECT 1", "not a name"),
        ("-- name: two words\nSELECT 1", "not a name"),
    ],
)
def test_a_malformed_file_is_refused(text: str, said: str) -> None:
    with pytest.raises(QueryFileError, match=rf"x\.sql.*{said}"):
        parse_queries(text, "x.sql")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(QueryFileError, match=r"no_such\.sql"):
        load_queries("no_such")


def test_every_file_of_the_package_is_well_formed() -> None:
    assert FILES
    for file in FILES:
        assert load_queries(file)


@pytest.mark.parametrize("file", FILES)
def test_batches_of_hot_rows_carry_their_bounds(file: str) -> None:
    """Without the smallest and largest id beside `= ANY(ids)` every partition is looked through (docs/data.md)."""
    for name, text in load_queries(file).items():
        statement = "\n".join(line.partition("--")[0] for line in text.splitlines())
        if re.search(r"ulak\.(notifications|deliveries|contents|delivery_log)\b", statement):
            for column in re.findall(r"([\w.]*\b(?:notification_id|id)) = ANY\s*\(", statement):
                assert f"{column} BETWEEN" in statement, f"{file}.sql: {name}"
