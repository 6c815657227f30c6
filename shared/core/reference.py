"""Our name for one delivery as providers see it: idempotency and reference fields, callback URLs, Message-IDs."""

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from shared.core.identifier import NOTIFICATION, parse_public_id, public_id, uuid_text


@dataclass(frozen=True, slots=True, order=True)
class DeliveryKey:
    """Primary key of a delivery; orders as the rows do, which is the order batches lock in."""

    notification_id: UUID
    channel: str
    target_key: bytes

    def __hash__(self) -> int:
        # A batch looks its keys up a dozen times each; the generated one hashes a UUID object, which is slow.
        return hash((self.notification_id.int, self.target_key))

    @property
    def reference(self) -> str:
        """`ntf_....SMS.<base64url target key>`: URL-safe, the same for every attempt, read back by `parse`."""
        return _reference(self.notification_id, self.channel, self.target_key)

    @property
    def reference_uuid(self) -> UUID:
        """The same delivery as a UUID (version 8, RFC 9562 5.8), for fields that take nothing else (`apns-id`)."""
        return UUID(self.reference_uuid_text)

    @property
    def reference_uuid_text(self) -> str:
        """`reference_uuid` as providers read it."""
        return uuid_text(hashlib.sha256(self.reference.encode()).hexdigest(), 8)

    @classmethod
    def parse(cls, reference: str) -> "DeliveryKey":
        """Inverse of `reference`; ValueError for anything else."""
        parts = reference.split(".")
        if len(parts) != 3:
            raise ValueError("not a delivery reference: three parts expected")
        try:
            target = base64.urlsafe_b64decode(parts[2] + "=" * (-len(parts[2]) % 4))
            key = cls(parse_public_id(NOTIFICATION, parts[0]), parts[1], target)
        except ValueError as error:  # of the id, or of the base64 (binascii.Error is one)
            raise ValueError("not a delivery reference") from error
        if key.reference != reference:  # base64 decoding passes over foreign characters
            raise ValueError("not a delivery reference")
        return key


@lru_cache(maxsize=16_384)
def _reference(notification_id: UUID, channel: str, target_key: bytes) -> str:
    """Kept for a while: a delivery asks for its reference several times on its way through a worker."""
    target = base64.urlsafe_b64encode(target_key).decode().rstrip("=")
    return f"{public_id(NOTIFICATION, notification_id)}.{channel}.{target}"
