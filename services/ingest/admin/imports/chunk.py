"""Lines that are committed together, and what is wrong with one by itself. Pure."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import orjson

from services.ingest.admin.imports.kind import ImportKind
from services.ingest.admin.imports.lines import LONGEST, Line
from shared.postgres.import_run import BadLine
from shared.web.problem import FieldError

CHUNK_LINES: Final = 1000
CHUNK_BYTES: Final = 1024 * 1024
"""Lines of a chunk, and bytes: whichever comes first. A chunk and the piece that filled it are all that is held."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""What some editors put before a file."""


@dataclass(slots=True)
class Chunk:
    """Lines on their way, numbered from `first`."""

    first: int
    lines: list[Line] = field(default_factory=list)
    size: int = 0

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self.size += 0 if line is None else len(line)

    @property
    def full(self) -> bool:
        return len(self.lines) >= CHUNK_LINES or self.size >= CHUNK_BYTES


def read_line(kind: ImportKind[Any], number: int, line: Line, now: datetime) -> Any:
    """A line's value; None for a blank one; a BadLine for what cannot be one."""
    if line is None:
        return BadLine(number, "line_too_long", "", f"a line has at most {LONGEST} bytes: shorten it")
    text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
    if not text.strip():
        return None
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        # Its place alone: the error's text may quote.
        return BadLine(number, "malformed_json", "", f"not JSON at character {error.pos}: send one object a line")
    found = kind.read(content, now)
    if not isinstance(found, tuple):
        return found
    first: FieldError = found[0]
    more = "" if len(found) == 1 else f" (and {len(found) - 1} more)"
    return bad_field(number, FieldError(first.path, f"{first.detail or 'correct or remove it'}{more}"))


def bad_field(number: int, wrong: FieldError) -> BadLine:
    """The path may hold a field's name as the caller wrote it: anything that a terminal or a column would choke on is
    left out.
    """
    path = "".join(character if character.isprintable() else "?" for character in wrong.path)
    return BadLine(number, "invalid", path, wrong.detail or "correct or remove it")
