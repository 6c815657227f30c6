"""Files below one folder. By hand, since obstore's local store follows every symlink and waits for ever on a pipe."""

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from shared.core.storage import (
    InvalidRefError,
    MissingFileError,
    Scheme,
    StorageRef,
    StorageUnavailableError,
    TooLargeError,
)

_CHUNK_BYTES: Final = 256 * 1024
_THREADS: Final = 8
"""A network share that hangs holds at most these; the event loop and other blocking work go on."""

_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ENXIO})
_NO_FOLDER: Final = "the folder of ULAK_STORAGE_FOLDER cannot be opened ({}): see whether it is mounted and readable"

R = TypeVar("R")


class Folder:
    """The files below `root`. Symlinks are followed while they stay below it when reading, and never when deleting."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="storage")

    def close(self) -> None:
        """Does not wait for what still runs."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def read(self, ref: StorageRef, *, max_bytes: int) -> bytes:
        """Raises a StorageError. Cancelling it leaves the thread to end by itself."""
        return await self._in_thread(partial(self._read, ref, max_bytes))

    async def delete(self, ref: StorageRef) -> None:
        """Remove the file itself; a symlink on the way is refused, for what it leads to may be somebody else's."""
        await self._in_thread(partial(self._delete, ref))

    async def _in_thread(self, work: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _read(self, ref: StorageRef, max_bytes: int) -> bytes:
        with _explained(), self._opened(self._inside(ref)) as file:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise MissingFileError("a file: reference leads to something that is not a file")
            if found.st_size > max_bytes:
                raise TooLargeError(Scheme.FILE, max_bytes)
            content = bytearray()
            while chunk := os.read(file, _CHUNK_BYTES):
                content += chunk
                if len(content) > max_bytes:  # it grew meanwhile
                    raise TooLargeError(Scheme.FILE, max_bytes)
            return bytes(content)

    def _delete(self, ref: StorageRef) -> None:
        *folders, name = ref.segments
        with suppress(MissingFileError), _explained(), self._parent(folders) as parent:
            os.unlink(name, dir_fd=parent)

    def _inside(self, ref: StorageRef) -> tuple[str, ...]:
        """The path below the root once every symlink is followed."""
        try:
            root = os.path.realpath(self._root, strict=True)
        except OSError as error:
            raise StorageUnavailableError(_NO_FOLDER.format(error.strerror)) from None
        found = Path(os.path.realpath(Path(root, ref.path), strict=True))
        try:
            segments = found.relative_to(root).parts
        except ValueError:
            raise InvalidRefError("a file: reference leads through a symlink out of ULAK_STORAGE_FOLDER") from None
        if not segments:
            raise MissingFileError("a file: reference leads to ULAK_STORAGE_FOLDER itself")
        return segments

    @contextmanager
    def _opened(self, segments: tuple[str, ...]) -> Iterator[int]:
        *folders, name = segments
        with self._parent(folders) as parent:
            # Without O_NONBLOCK opening a pipe would wait for a writer.
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        try:
            yield file
        finally:
            os.close(file)

    @contextmanager
    def _parent(self, folders: list[str]) -> Iterator[int]:
        """The folder of the last segment, opened step by step: a symlink put in the way meanwhile is refused."""
        try:
            current = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StorageUnavailableError(_NO_FOLDER.format(error.strerror)) from None
        try:
            for name in folders:
                step = _step(name, current)
                os.close(current)
                current = step
            yield current
        finally:
            os.close(current)


def _step(name: str, folder: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except NotADirectoryError:
        # Linux says this of a symlink too, and to delete nothing without a word would be wrong there.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise InvalidRefError("a file: reference leads through a symlink") from None
        raise


@contextmanager
def _explained() -> Iterator[None]:
    """Translates what the system says. Not chained: an OSError holds the path, and traces are logged."""
    try:
        yield
    except OSError as error:
        if error.errno in _MISSING:
            raise MissingFileError("a file: reference leads to no file below ULAK_STORAGE_FOLDER") from None
        if error.errno == errno.ELOOP:
            raise InvalidRefError("a file: reference leads through a symlink") from None
        if error.errno in {errno.EACCES, errno.EPERM}:
            raise StorageUnavailableError(
                "a file below ULAK_STORAGE_FOLDER may not be opened: let the user that Ulak runs as read it, and "
                "change the folders that it owns"
            ) from None
        raise StorageUnavailableError(
            f"a file below ULAK_STORAGE_FOLDER cannot be read ({error.strerror}): see to its disk"
        ) from None
