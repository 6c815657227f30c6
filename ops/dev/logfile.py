"""Logs that do not fill the disk, and reading them while they grow."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

LARGEST_LOG_BYTES = 16 * 1024 * 1024
_POLL_SEC = 0.2


def bound(log: Path, largest_bytes: int = LARGEST_LOG_BYTES) -> bool:
    """Move a log that grew too long aside to `<log>.1` and go on in an empty one. True when it was moved.

    Its writer keeps the file open, so it is copied and truncated (it appends, so it goes on at the new end); lines
    written between the two are lost, which is right for a desk and would not be for production.
    """
    try:
        if log.stat().st_size <= largest_bytes:
            return False
    except FileNotFoundError:
        return False
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    with log.open("r+b") as file:
        file.truncate(0)
    return True


def follow(
    logs: Sequence[Path], is_over: Callable[[], bool], pause: Callable[[float], None] = time.sleep
) -> Iterator[tuple[Path, str]]:
    """Yield (log, line) for every line appended from now on, until `is_over` says so; blocks between them."""
    files: dict[Path, BinaryIO] = {}
    for log in logs:
        if log.exists():
            files[log] = log.open("rb")
            files[log].seek(0, 2)
    try:
        while True:
            over = is_over()
            quiet = True
            for log in logs:
                if log not in files and log.exists():
                    files[log] = log.open("rb")
                for line in _new_lines(files[log]) if log in files else ():
                    quiet = False
                    yield log, line
            if over:
                return
            if quiet:
                pause(_POLL_SEC)
    finally:
        for file in files.values():
            file.close()


def _new_lines(file: BinaryIO) -> Iterator[str]:
    # seek(0, 2) tells the size: smaller than where we are means that the supervisor truncated it.
    position = file.tell()
    if file.seek(0, 2) < position:
        position = 0
    file.seek(position)
    while line := file.readline():
        if not line.endswith(b"\n"):
            file.seek(-len(line), 1)  # the rest of it is not written yet
            return
        yield line.decode("utf-8", "replace").rstrip("\n")
