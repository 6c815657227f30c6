"""The storage every process that needs files opens once, in its composition root."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from shared.core.storage import (
    InvalidRefError,
    OwnedFolder,
    Scheme,
    Storage,
    StorageRef,
    StorageUnavailableError,
)
from shared.storage.folder import Folder
from shared.storage.settings import StorageSettings

if TYPE_CHECKING:
    from shared.storage.bucket import Bucket

_DELETE_TIMEOUT_SEC: Final = 30.0


@asynccontextmanager
async def open_storage(settings: StorageSettings) -> AsyncIterator[Storage]:
    """What the settings name, for the length of the block. Connects to nothing and reads nothing yet."""
    folder = Folder(settings.folder) if settings.folder is not None else None
    try:
        yield ConfiguredStorage(folder, _buckets(settings), settings.owned_folders)
    finally:
        if folder is not None:
            folder.close()


class ConfiguredStorage:
    """Leads each reference to its folder or bucket, within the time limit. Implements `Storage`."""

    def __init__(
        self, folder: Folder | None, buckets: "Mapping[str, Bucket]", owned_folders: tuple[OwnedFolder, ...]
    ) -> None:
        self._folder = folder
        self._buckets = buckets
        self._owned_folders = owned_folders

    async def read(self, ref: str, *, max_bytes: int, timeout_sec: float) -> bytes:
        parsed = StorageRef.parse(ref)
        place = self._place(parsed)
        try:
            async with asyncio.timeout(timeout_sec):
                return await place.read(parsed, max_bytes=max_bytes)
        except TimeoutError:
            raise _slow("read", parsed.scheme, timeout_sec) from None

    async def delete(self, ref: str) -> None:
        parsed = StorageRef.parse(ref)
        if not self._holds(parsed):
            raise InvalidRefError(
                f"a {parsed.scheme}: reference is to be deleted that Ulak does not own: see ULAK_STORAGE_OWNED"
            )
        place = self._place(parsed)
        try:
            async with asyncio.timeout(_DELETE_TIMEOUT_SEC):
                await place.delete(parsed)
        except TimeoutError:
            raise _slow("deleted", parsed.scheme, _DELETE_TIMEOUT_SEC) from None

    def owns(self, ref: str) -> bool:
        try:
            return self._holds(StorageRef.parse(ref))
        except InvalidRefError:
            return False

    def _holds(self, ref: StorageRef) -> bool:
        return any(owned.holds(ref) for owned in self._owned_folders)

    def _place(self, ref: StorageRef) -> "Folder | Bucket":
        place = self._folder if ref.scheme is Scheme.FILE else self._buckets.get(ref.bucket)
        if place is None:
            remedy = "set ULAK_STORAGE_FOLDER" if ref.scheme is Scheme.FILE else "add it to ULAK_STORAGE_S3_BUCKETS"
            raise InvalidRefError(f"a {ref.scheme}: reference leads to a place that is not configured: {remedy}")
        return place


def _buckets(settings: StorageSettings) -> "Mapping[str, Bucket]":
    if not settings.buckets:
        return {}
    from shared.storage.bucket import Bucket  # loads the S3 client: only who uses it pays for it

    return {name: Bucket(name, settings) for name in settings.buckets}


def _slow(done: str, scheme: Scheme, timeout_sec: float) -> StorageUnavailableError:
    return StorageUnavailableError(
        f"the file of a {scheme}: reference was not {done} within {timeout_sec:g} s: see to the storage's speed"
    )
