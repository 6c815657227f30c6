"""Sealing before it is stored: what is in the row can be read by Ulak alone. Needs `ulak-client[sealing]`.

AES-256-GCM under a key of the row's own, which is HMAC-SHA256 of the ring's key with the purpose and the row's id; both
are bound as associated data too, so that a sealed value moved to another row or column does not open. The layout: 1
byte format (1), 1 byte length of the key id, key id, 12 bytes nonce, ciphertext and tag.
"""

import base64
import binascii
import hmac
import json
import os
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

try:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    raise ImportError("sealing needs the package cryptography: pip install 'ulak-client[sealing]'") from error

_FORMAT: Final = 1
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_LONGEST_ID: Final = 64
_PURPOSE: Final = b"outbox-v1"
_REFUSED_MODE: Final = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
"""Owner only, or owner and group reading: Kubernetes mounts a Secret so that the pod's group may read it."""


class KeyRingError(ValueError):
    """The ring cannot be had or cannot be right; the message names the file and the remedy, never key bytes."""


class KeyRingWarning(UserWarning):
    """The ring's file cannot be read any more: what was read before goes on sealing."""


@dataclass(frozen=True, slots=True)
class SealingKey:
    """One key of Ulak's ring, with its id. repr shows the id alone."""

    id: str
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not self.id.isascii() or not 0 < len(self.id) <= _LONGEST_ID:
            raise KeyRingError(f"a key id has 1 to {_LONGEST_ID} ASCII characters")
        if len(self.key) != _KEY_BYTES:
            raise KeyRingError(f"key {self.id!r} is {len(self.key)} bytes long: a key has {_KEY_BYTES}")

    def seal(self, row: bytes, plain: bytes) -> bytes:
        """Seal for one row; `row` is its identity, as Ulak will name it when it opens this. Draws a random nonce."""
        bound = _PURPOSE + b"\x00" + row
        # HKDF's expand step for one block (RFC 5869 section 2.3); the ring's keys are random, so nothing to extract.
        row_key = hmac.digest(self.key, bound + b"\x01", "sha256")
        nonce = os.urandom(_NONCE_BYTES)
        key_id = self.id.encode()
        sealed = AESGCM(row_key).encrypt(nonce, plain, bound)
        return b"".join((bytes((_FORMAT, len(key_id))), key_id, nonce, sealed))


class KeyRing:
    """Seals with the active key of Ulak's ring. A service opens nothing, so it needs no other.

    Made of Ulak's own ring file, or of a copy with `active` and that one of its `keys` alone. A file is read again when
    it is another one, so that a key that Ulak promotes seals from then on without a restart; what
    ULAK_KEY_RING gave stays. Threads may share it.
    """

    def __init__(self, key: SealingKey, *, file: Path | None = None, seen: "_Identity | None" = None) -> None:
        """file: where the key was read from and is read again; seen: which file that was. None: it does not change."""
        self._file = file
        self._read = (seen, key)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a ring file; KeyRingError if it is not one, or if others may read it."""
        file = Path(path)
        seen = _identity(file)  # before its content, so that one that takes its place in between is read again
        return cls(_read(file), file=file, seen=seen)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """The ring that ULAK_KEY_RING_FILE (a path) or ULAK_KEY_RING (the JSON itself) gives; exactly one is set."""
        environ = os.environ if environ is None else environ
        path, text = environ.get("ULAK_KEY_RING_FILE"), environ.get("ULAK_KEY_RING")
        if path and text:
            raise KeyRingError("ULAK_KEY_RING_FILE and ULAK_KEY_RING are both set: unset one")
        if path:
            return cls.from_file(path)
        if text:
            return cls(_parse(text.encode(), "ULAK_KEY_RING"))
        raise KeyRingError("no key ring: set ULAK_KEY_RING_FILE to a ring that `ulak keys new` made")

    def seal(self, row: bytes, plain: bytes) -> bytes:
        """`SealingKey.seal` with the key that is active now; KeyRingWarning where a new file cannot be read."""
        if self._file is not None and (seen := _identity(self._file)) != self._read[0]:
            try:
                key = _read(self._file)
            except KeyRingError as error:
                warnings.warn(f"{error}; key {self._read[1].id!r} goes on sealing", KeyRingWarning, stacklevel=2)
            else:
                self._read = (seen, key)
        return self._read[1].seal(row, plain)


_Identity = tuple[int, ...]


def _identity(file: Path) -> _Identity | None:
    try:
        found = file.stat()
    except OSError:
        return None  # reading it then says what is wrong
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _read(file: Path) -> SealingKey:
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        data = file.read_bytes()
    except OSError as error:
        raise KeyRingError(f"the key ring {file} cannot be read ({error.strerror}): correct its path") from error
    if mode & _REFUSED_MODE:
        raise KeyRingError(f"the key ring {file} is open to others (mode {mode:04o}): run `chmod 600 {file}`")
    return _parse(data, str(file))


def _parse(data: bytes, source: str) -> SealingKey:
    """The errors of what reads it are dropped: they would quote the text, which is keys."""
    try:
        body: Any = json.loads(data)
        active = body["active"]
        return SealingKey(active, base64.b64decode(body["keys"][active], validate=True))
    except (KeyError, TypeError, AttributeError):
        raise KeyRingError(f'{source} is not a key ring like {{"active": "k1", "keys": {{"k1": ...}}}}') from None
    except KeyRingError as error:
        raise KeyRingError(f"{source}: {error}") from None
    except (binascii.Error, ValueError):
        raise KeyRingError(f"{source} is not JSON with keys in base64: restore it from its backup") from None
