"""Sealed payloads: AES-256-GCM under a per-row key (data.md, Sealing).

The row key is HKDF-SHA256 of the ring's key with purpose and row id; both are bound as associated data too, so a value
moved to another row or column does not open. Per-row keys keep each far from GCM's 2^32 random-nonce limit
(NIST SP 800-38D section 8.3), which 83 million a day would meet within weeks.

Layout: 1 byte format (1), 1 byte length of the key id, key id, 12 bytes nonce, ciphertext and tag.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

_FORMAT: Final = 1
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_LONGEST_ID: Final = 64


class Purpose(StrEnum):
    """What a sealed value is; part of its key."""

    PARAMS = "params-v1"
    CONTENT = "content-v1"
    OTP = "otp-v1"
    ADDRESS = "address-v1"
    RECEIPT = "receipt-v1"
    OUTBOX = "outbox-v1"
    EMAIL = "email-v1"
    DKIM = "dkim-v1"
    CONSENT = "consent-v1"
    INBOX = "inbox-v1"


class SealError(Exception):
    """Base of what keeps a sealed value shut.

    SealError
    +-- UnknownKeyError   no such key in this ring: look again (rotation in progress), never clear the row
    +-- LostKeyError      the ring records the key as lost or retired: permanently rejected
    +-- TamperedError     wrong row, wrong purpose, or altered bytes
    """


class UnknownKeyError(SealError):
    def __init__(self, key_id: str) -> None:
        super().__init__(f"sealed under key {key_id!r}, which is not in this key ring: add it, or record it as lost")
        self.key_id = key_id


class LostKeyError(SealError):
    def __init__(self, key_id: str) -> None:
        super().__init__(f"sealed under key {key_id!r}, which the key ring records as lost")
        self.key_id = key_id


class TamperedError(SealError):
    pass


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys by id: `active` seals, all open. `lookup_key` makes keyed hashes and is never rotated with the others.

    keys are 32 bytes each, their ids 1 to 64 ASCII characters; `lost` ids are known and gone. repr shows no key.
    """

    active: str
    keys: Mapping[str, bytes] = field(repr=False)
    lookup_key: bytes = field(repr=False)
    lost: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.active not in self.keys:
            raise ValueError(f"the active key {self.active!r} is not in the ring: promote one of {sorted(self.keys)}")
        for key_id in (*self.keys, *self.lost):
            if not key_id.isascii() or not 0 < len(key_id) <= _LONGEST_ID:
                raise ValueError(f"key id {key_id!r} is not 1 to {_LONGEST_ID} ASCII characters")
        for key_id, key in {**self.keys, "lookup key": self.lookup_key}.items():
            if len(key) != 32:
                raise ValueError(f"key {key_id!r} is {len(key)} bytes long; a key has 32")


def seal(ring: KeyRing, purpose: Purpose, row: bytes, plain: bytes) -> bytes:
    """Seal `plain` for one row; `row` is that row's identity (a UUID's bytes, a target key). Draws a random nonce."""
    nonce = os.urandom(_NONCE_BYTES)
    row_key, bound = _row_key(ring.keys[ring.active], purpose, row)
    sealed = AESGCM(row_key).encrypt(nonce, plain, bound)
    return b"".join((header(ring.active), nonce, sealed))


def open_sealed(ring: KeyRing, purpose: Purpose, row: bytes, sealed: bytes) -> bytes:
    """Inverse of `seal`, with the key the value was sealed under; raises a SealError."""
    end = _head_bytes(sealed)
    name = sealed[2:end].decode("ascii", errors="replace")
    key = ring.keys.get(name)
    if key is None:
        raise LostKeyError(name) if name in ring.lost else UnknownKeyError(name)
    row_key, bound = _row_key(key, purpose, row)
    try:
        return AESGCM(row_key).decrypt(sealed[end : end + _NONCE_BYTES], sealed[end + _NONCE_BYTES :], bound)
    except (InvalidTag, ValueError) as error:
        raise TamperedError(f"a {purpose} value does not open: altered, or moved from another row") from error


def header(key_id: str) -> bytes:
    """What every value sealed under this key begins with, and none that is sealed under another."""
    name = key_id.encode()
    return bytes((_FORMAT, len(name))) + name


def key_id(sealed: bytes) -> str:
    """Which key a value was sealed under; TamperedError for what is no sealed value."""
    return sealed[2 : _head_bytes(sealed)].decode("ascii", errors="replace")


def _head_bytes(sealed: bytes) -> int:
    if len(sealed) < 2 or sealed[0] != _FORMAT:
        raise TamperedError("not a sealed value of a format this release knows")
    end = 2 + sealed[1]
    if len(sealed) < end + _NONCE_BYTES + _TAG_BYTES:
        raise TamperedError("a sealed value that was cut short")  # before its key id is read: that may be cut as well
    return end


def keyed_hash(ring: KeyRing, label: str, value: str) -> bytes:
    """HMAC-SHA256 for look-ups (target keys, phone keys, request bodies): 32 bytes, equal for equal input.

    `label` keeps kinds apart, so that the same text as a phone and as an event id gives two hashes.
    """
    return _mac(ring.lookup_key, label.encode() + b"\x00" + value.encode())


def _row_key(key: bytes, purpose: Purpose, row: bytes) -> tuple[bytes, bytes]:
    bound = purpose.encode() + b"\x00" + row
    # Expand alone: the ring's keys are uniformly random, which is what HKDF's extract step is for (RFC 5869 3.3).
    # One block of output is one HMAC (section 2.3: T(1) = HMAC(PRK, info | 0x01)), at a third of HKDFExpand's cost.
    return _mac(key, bound + b"\x01"), bound


def _mac(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256. A copy of a keyed context costs a third of starting from the key; several are made per message."""
    mac = _keyed(key).copy()
    mac.update(message)
    return mac.finalize()


@lru_cache(maxsize=16)  # a ring's keys; they are in memory as long as the ring is
def _keyed(key: bytes) -> HMAC:
    return HMAC(key, SHA256())
