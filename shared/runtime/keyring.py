"""Where the key ring comes from: a file or the environment now, a KMS behind the same port when there is one.

The ring as JSON: {"active": id, "keys": {id: base64 of 32 bytes}, "lookupKey": base64, "lost": [id]}. docs/security.md
tells the life of a key.
"""

import asyncio
import base64
import binascii
import os
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import orjson
from pydantic import Field
from pydantic_settings import BaseSettings

from shared.core.sealing import KeyRing
from shared.runtime.error import OperatorError
from shared.runtime.logs import get_logger
from shared.runtime.settings import settings_config

_log = get_logger(__name__)

RING_REFRESH_SEC: Final = 30.0
"""How often a running service looks whether its ring is another one: so long it may seal with the key before."""

_REFUSED_MODE: Final = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
"""Owner only, or owner and group reading: Kubernetes mounts a Secret so that the pod's group may read it."""


class KeyRingError(OperatorError):
    """The ring cannot be had or cannot be right; the message names the file and the remedy, never key bytes."""


class KeyRingSettings(BaseSettings):
    """One of the two is set; the file is the one that can be re-read while a service runs."""

    model_config = settings_config("ULAK_KEY_")

    ring_file: Path | None = Field(default=None, description="Path of the key ring's JSON file.")
    ring: str | None = Field(default=None, repr=False, description="The whole JSON, where no file can be mounted.")


class RingSource(Protocol):
    """The port: whatever keeps the keys shows the ring of this moment and can look again."""

    @property
    def ring(self) -> KeyRing:
        """The ring as last read."""

    def refresh(self) -> bool:
        """Look again and tell whether the ring is another now.

        Called when a sealed value names a key that the ring does not have (UnknownKeyError): a key may have been added
        since. The caller then tries once more. Raises KeyRingError, and keeps the ring it had.
        """


class FixedRingSource:
    """A ring that does not change while the process lives: from the environment, or a test's."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    @property
    def ring(self) -> KeyRing:
        return self._ring

    def refresh(self) -> bool:
        return False


class FileRingSource:
    """A ring in a file, read again when the file is another one (replaced by `ulak keys` or by a Secret's update)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _identity(path)
        self._ring = read_ring(path)

    @property
    def ring(self) -> KeyRing:
        return self._ring

    def refresh(self) -> bool:
        seen = _identity(self._path)
        if seen == self._seen:
            return False
        ring = read_ring(self._path)
        changed = ring != self._ring
        self._seen, self._ring = seen, ring
        return changed


def load_ring_source(settings: KeyRingSettings) -> RingSource:
    """The source the settings name; KeyRingError if they name none or both, or the ring is not usable."""
    if settings.ring_file is not None and settings.ring is not None:
        raise KeyRingError("ULAK_KEY_RING_FILE and ULAK_KEY_RING are both set: unset one")
    if settings.ring_file is not None:
        return FileRingSource(settings.ring_file)
    if settings.ring is not None:
        return FixedRingSource(parse_ring(settings.ring.encode(), "ULAK_KEY_RING"))
    raise KeyRingError("no key ring: set ULAK_KEY_RING_FILE to a file that `ulak keys new` made")


@asynccontextmanager
async def refreshed(rings: RingSource, *, every_sec: float = RING_REFRESH_SEC) -> AsyncIterator[None]:
    """Look again every so often, so that what is sealed uses a promoted key without a restart.

    A ring that cannot be read is logged, and the one that was there stays in use.
    """

    async def look() -> None:
        while True:
            await asyncio.sleep(every_sec)
            try:
                rings.refresh()
            except KeyRingError as error:
                _log.error("key_ring_not_refreshed", reason=str(error))

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def read_ring(path: Path) -> KeyRing:
    """Read and check a ring file; refuses one that others may read."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        data = path.read_bytes()
    except OSError as error:
        raise KeyRingError(
            f"the key ring {path} cannot be read ({error.strerror}): make one with `ulak keys new --file {path}`, "
            "or correct ULAK_KEY_RING_FILE"
        ) from error
    if mode & _REFUSED_MODE:
        raise KeyRingError(f"the key ring {path} is open to others (mode {mode:04o}): run `chmod 600 {path}`")
    return parse_ring(data, str(path))


def parse_ring(data: bytes, source: str) -> KeyRing:
    """The ring in JSON text; `source` names it in errors."""
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        # Without the decoder's message and as its own error: both would quote the text, which is keys.
        raise KeyRingError(f"{source} is not JSON: restore the key ring from its backup") from None
    try:
        ring = KeyRing(
            active=_text(body["active"]),
            keys={_text(key_id): _key(value, key_id) for key_id, value in body["keys"].items()},
            lookup_key=_key(body["lookupKey"], "lookupKey"),
            lost=frozenset(_text(key_id) for key_id in body.get("lost", [])),
        )
    except KeyError as error:
        raise KeyRingError(f"{source} lacks {error}: restore the key ring from its backup") from None
    except (TypeError, AttributeError):
        raise KeyRingError(
            f'{source} has another shape than {{"active", "keys", "lookupKey", "lost"}}: restore it from its backup'
        ) from None
    except ValueError as error:
        raise KeyRingError(f"{source}: {error}") from None
    both = sorted(ring.lost & ring.keys.keys())
    if both:
        raise KeyRingError(f"{source} has {both} among its keys and its lost ones: remove one of the two")
    return ring


def ring_json(ring: KeyRing) -> bytes:
    """Inverse of `parse_ring`: indented, ends with a newline."""
    body: Mapping[str, Any] = {
        "active": ring.active,
        "keys": {key_id: base64.b64encode(key).decode() for key_id, key in ring.keys.items()},
        "lookupKey": base64.b64encode(ring.lookup_key).decode(),
        "lost": sorted(ring.lost),
    }
    return orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n"


def write_ring(path: Path, ring: KeyRing) -> None:
    """Replace the file at once, mode 0600, durable before it takes the old one's place.

    A crash at any moment leaves either ring whole: a key that has sealed something must never be lost half-written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(ring_json(ring))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise KeyRingError(f"the key ring {path} cannot be written ({error.strerror}): see to its folder") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None  # reading it then says what is wrong
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or not value.isascii() or len(value) > 64:
        raise ValueError("a key id is not a text of 1 to 64 ASCII characters")
    return value


def _key(value: Any, key_id: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ValueError(f"key {key_id!r} is not base64") from None
