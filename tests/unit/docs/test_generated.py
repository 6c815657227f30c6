"""What is made from the code is what is checked in: a change of contract shows in a diff."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
DOCUMENTS: dict[str, bytes] = runpy.run_path(str(DOCS / "generate.py"))["documents"]()


@pytest.mark.parametrize("path", sorted(DOCUMENTS))
def test_checked_in_document_is_the_code_s(path: str) -> None:
    assert (DOCS / path).read_bytes() == DOCUMENTS[path], "run `make docs` and commit what changed"
