"""What is made from the code is what is checked in: a change of contract shows in a diff."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_checked_in_documents_are_the_code_s() -> None:
    made: dict[str, bytes] = runpy.run_path(str(DOCS / "generate.py"))["documents"]()
    assert len(made) >= 5
    stale = [path for path, content in made.items() if (DOCS / path).read_bytes() != content]
    assert stale == [], "run `make docs` and commit what changed"
