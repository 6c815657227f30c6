"""SQL lives in `queries/*.sql`, by name; each part of Ulak owns the file of its name."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from shared.postgres.errors import QueryFileError

_FOLDER: Final = Path(__file__).parent / "queries"
_MARK: Final = "-- name:"


def load_queries(name: str) -> Mapping[str, str]:
    """The statements of `queries/<name>.sql` by name, one per block headed `-- name: xyz`.

    The head stays in the text, so that pg_stat_statements and the server's log say which query it is.
    Raises QueryFileError for a missing file, a name given twice, an empty block or text before the first head.
    """
    path = _FOLDER / f"{name}.sql"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise QueryFileError(f"no queries file {path.name}") from error
    return parse_queries(text, path.name)


def parse_queries(text: str, source: str) -> Mapping[str, str]:
    """What `load_queries` does with a file's text; `source` names it in errors."""
    head, *blocks = f"\n{text}".split(f"\n{_MARK}")
    if any(line.strip() and not line.lstrip().startswith("--") for line in head.splitlines()):
        raise QueryFileError(f"{source}: there is SQL before the first `{_MARK} ...` line")
    queries: dict[str, str] = {}
    for block in blocks:
        first, _, body = block.partition("\n")
        query = first.strip()
        if not query.isidentifier():
            raise QueryFileError(f"{source}: {query!r} is not a name")
        if query in queries:
            raise QueryFileError(f"{source}: {query} is there twice")
        if not any(line.strip() and not line.lstrip().startswith("--") for line in body.splitlines()):
            raise QueryFileError(f"{source}: {query} has no statement")
        queries[query] = f"{_MARK} {query}\n{body.strip()}"
    return MappingProxyType(queries)
