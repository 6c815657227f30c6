"""What providers say later: a callback as it came in, and the receipts read out of it.

A provider's `receipts.py` implements `ReceiptReader`. The receiver verifies a `CallbackRequest` and puts it, sealed, on
`delivery-receipts`; the projector opens it and reads it again, so a repaired reader can be applied to what is stored.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

import orjson

from shared.core.lifecycle import ReceiptKind
from shared.core.reference import DeliveryKey

_FORMAT: Final = 1


class ReceiptError(Exception):
    """Base of what can be wrong with a callback.

    ReceiptError
    +-- UnsignedError    no signature at all: 401
    +-- ForgedError      signature wrong, or too old to be believed: 403
    +-- UnreadableError  really the provider's, but not in a form this release reads: dead-letter it
    """


class UnsignedError(ReceiptError):
    pass


class ForgedError(ReceiptError):
    pass


class UnreadableError(ReceiptError):
    pass


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    """One HTTP request of a provider, as far as verifying and reading need it.

    target is the raw request target (path and query, as on the request line, not decoded): signatures cover it byte by
    byte. headers have lower-case names. The Host and X-Forwarded-* headers are worth nothing (S5).
    """

    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def query(self) -> str:
        """The raw query string, without the question mark."""
        return urlsplit(self.target).query

    def pack(self) -> bytes:
        """Bytes to seal; `unpack` reads them. Headers stay behind except the content type: they were for verifying."""
        body = base64.b64encode(self.body).decode()
        content_type = self.headers.get("content-type", "")
        return orjson.dumps({"v": _FORMAT, "target": self.target, "contentType": content_type, "body": body})

    @classmethod
    def unpack(cls, packed: bytes) -> "CallbackRequest":
        """Inverse of `pack`; UnreadableError for anything else."""
        try:
            stored = orjson.loads(packed)
            if stored["v"] != _FORMAT:
                raise UnreadableError(f"a stored callback of format {stored['v']!r}; this release reads {_FORMAT}")
            headers = {"content-type": str(stored["contentType"])}
            return cls(target=str(stored["target"]), headers=headers, body=base64.b64decode(stored["body"]))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise UnreadableError(f"not a stored callback: {type(error).__name__}") from error


@dataclass(frozen=True, slots=True)
class Receipt:
    """One statement about one delivery.

    attempt is the number of the attempt it speaks of, 1 for the first. event_key is the provider's id of this
    statement, or what makes it the same statement again (dedup). suppress: why nothing may be sent to this address any
    more, None if it may. detail is for operators and never holds an address or a text.
    """

    key: DeliveryKey
    attempt: int
    kind: ReceiptKind
    provider_message_id: str
    event_key: str
    error_code: str | None = None
    detail: str = ""
    suppress: str | None = None


class ReceiptReader(Protocol):
    """What a provider's `receipts.py` offers: both methods are pure and quick, they run on the event loop."""

    def verify(self, request: CallbackRequest) -> None:
        """Return if the provider signed this request; raise UnsignedError or ForgedError. Compares in constant time."""

    def read(self, request: CallbackRequest) -> Sequence[Receipt]:
        """The receipts in a verified request, in order; empty if it speaks of nothing that is ours.

        Raises UnreadableError.
        """
