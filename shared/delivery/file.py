"""The files of one mail: read when it is sent, each and all together within their limits."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from shared.core.storage import Storage, StorageError, TooLargeError


class Limits(Protocol):
    """What `EmailSettings` sets."""

    @property
    def attachment_max_bytes(self) -> int:
        """Of one file."""

    @property
    def attachments_total_max_bytes(self) -> int:
        """Of all files of one mail."""


class FilesTooLargeError(TooLargeError):
    """Each file fits, and all of them together do not. Permanent."""

    def __init__(self, max_bytes: int) -> None:
        StorageError.__init__(
            self,
            f"the files of this mail are larger than {max_bytes} bytes together: put them where a link leads to them, "
            "or raise ULAK_EMAIL_ATTACHMENTS_TOTAL_MAX_BYTES",
        )
        self.max_bytes = max_bytes


class Files:
    """One mail's files. What was read is not kept, only how long it was: another attempt reads again."""

    def __init__(self, storage: Storage, limits: Limits) -> None:
        self._storage = storage
        self._limits = limits
        self._lengths: list[int] = []

    def reader(self, ref: str) -> Callable[[float], Awaitable[bytes]]:
        """`Attachment.read` of one more file; a file that would bring the mail above its sum is FilesTooLargeError."""
        place = len(self._lengths)
        self._lengths.append(0)

        async def read(timeout_sec: float) -> bytes:
            single, left = self._limits.attachment_max_bytes, self._left(place)
            try:
                found = await self._storage.read(ref, max_bytes=min(single, left), timeout_sec=timeout_sec)
            except TooLargeError as error:
                if left >= single:
                    raise
                raise self._too_large() from error
            if len(found) > self._left(place):  # looked at again: others may have been read meanwhile
                raise self._too_large()
            self._lengths[place] = len(found)
            return found

        return read

    def _left(self, place: int) -> int:
        others = sum(self._lengths) - self._lengths[place]
        return max(0, self._limits.attachments_total_max_bytes - others)

    def _too_large(self) -> FilesTooLargeError:
        return FilesTooLargeError(self._limits.attachments_total_max_bytes)
