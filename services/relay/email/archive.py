"""Where e-mail rows go when their time is over: nowhere, another table, or NDJSON files."""

import asyncio
import base64
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import UUID

import orjson

from services.relay.email.settings import ModelASettings
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SQL: Final = load_queries("email_messages")


class Archive(Protocol):
    """Takes rows out of the table, in the transaction that `connection` is in."""

    async def remove(self, connection: Connection, source: str, ids: Sequence[UUID]) -> None:
        """Remove rows, kept elsewhere before that if so chosen. Raises asyncpg's errors and OSError."""


class NoArchive:
    async def remove(self, connection: Connection, source: str, ids: Sequence[UUID]) -> None:  # noqa: ARG002  the port's
        await connection.execute(_SQL["remove_email"], ids)


class TableArchive:
    """`ulak.email_messages_archive` of the same database: a row is always in exactly one of the two tables."""

    async def remove(self, connection: Connection, source: str, ids: Sequence[UUID]) -> None:  # noqa: ARG002  the port's
        await connection.execute(_SQL["archive_email"], ids)


class FolderArchive:
    """`<source>-<day of removal>.ndjson` in a folder, a line per row, on the disk before the row is removed.

    A crash in between writes the row's line a second time, and may leave a line cut short before it: readers take the
    last whole line of an id. Bytes are base64; recipients and parameters stay sealed.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._folder = folder
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="archive")  # a share that hangs holds this one alone

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def remove(self, connection: Connection, source: str, ids: Sequence[UUID]) -> None:
        rows = await connection.fetch(_SQL["full_email"], ids)
        lines = b"".join(_line(source, row) for row in rows)
        name = f"{_NOT_IN_A_NAME.sub('-', source)}-{self._clock():%Y-%m-%d}.ndjson"
        write = partial(_append, self._folder / name, lines)
        await asyncio.get_running_loop().run_in_executor(self._thread, write)
        await connection.execute(_SQL["remove_email"], ids)


def make_archive(settings: ModelASettings) -> NoArchive | TableArchive | FolderArchive:
    """As `ULAK_RELAY_EMAIL_ARCHIVE` says."""
    folder = settings.archive_folder
    if folder is not None:
        return FolderArchive(folder)
    return TableArchive() if settings.archive else NoArchive()


def _line(source: str, row: Any) -> bytes:
    return orjson.dumps({"source": source, **dict(row)}, default=_text, option=orjson.OPT_APPEND_NEWLINE)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _append(path: Path, lines: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        if end := file.seek(0, os.SEEK_END):
            file.seek(end - 1)
            if file.read(1) != b"\n":  # a crash cut the last line short
                file.write(b"\n")
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
