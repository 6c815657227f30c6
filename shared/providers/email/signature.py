"""DKIM signatures (RFC 6376, 8301): relaxed/relaxed, RSA with SHA-256.

dkimpy reads, canonicalises and selects; the RSA operation is cryptography's. dkimpy's own is plain Python: 5.1 ms with
a key of 2,048 bits where cryptography takes 0.2, all of it on the event loop.
"""

import base64
import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from dkim import rfc822_parse, select_headers
from dkim.canonicalization import Relaxed

from shared.core.ports import DkimKey

_KEY_BITS: Final = range(1024, 4097)
"""RFC 8301 section 3.2: what signers must have at least, and what verifiers must be able to check at most."""

_SIGNED: Final = frozenset(
    {
        *(b"from", b"sender", b"reply-to", b"to", b"cc", b"subject", b"date", b"message-id", b"auto-submitted"),
        *(b"in-reply-to", b"references"),
        *(b"mime-version", b"content-type", b"content-transfer-encoding"),
        *(b"list-id", b"list-help", b"list-unsubscribe", b"list-unsubscribe-post", b"list-subscribe", b"list-post"),
        *(b"list-owner", b"list-archive"),
    }
)
"""RFC 6376 section 5.4.1, and RFC 8058 section 4 for the header of one-click unsubscribing."""

_SEALED: Final = (b"from", b"reply-to", b"to", b"cc", b"subject")
"""Signed once more than they are there, so that nobody can add another one that readers are shown (section 8.15)."""

_LINE: Final = 72

Headers = Sequence[tuple[bytes, bytes]]
_parsed: Final[Callable[[bytes], tuple[Headers, bytes]]] = rfc822_parse
_selected: Final[Callable[[Headers, Sequence[bytes]], Headers]] = select_headers
_relaxed_headers: Final[Callable[[Headers], Headers]] = Relaxed.canonicalize_headers
_relaxed_body: Final[Callable[[bytes], bytes]] = Relaxed.canonicalize_body
"""dkimpy's functions with their types, which it does not give."""


class InvalidKeyError(ValueError):
    """A DKIM key that cannot sign; the message says what to make instead and holds nothing of the key."""


def load_key(pem: bytes) -> RSAPrivateKey:
    """The key in PKCS#1 or PKCS#8 PEM; InvalidKeyError for anything else."""
    remedy = "make one with `openssl genrsa -out dkim.pem 2048`"
    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError:
        raise InvalidKeyError(f"the DKIM key is locked by a passphrase: {remedy}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidKeyError(f"the DKIM key is not a private key in PEM: {remedy}") from None
    if not isinstance(key, RSAPrivateKey):
        raise InvalidKeyError(f"the DKIM key is not an RSA key, which is what all receivers can check: {remedy}")
    if key.key_size not in _KEY_BITS:
        raise InvalidKeyError(f"the DKIM key has {key.key_size} bits, not 1024 to 4096: {remedy}")
    return key


_kept_key = lru_cache(maxsize=64)(load_key)
"""Parsed once, not for each mail; it is in memory as PEM anyway."""


def signature(mail: bytes, key: DkimKey, now: datetime) -> bytes:
    """The DKIM-Signature header of a finished mail, with its line end, to be put in front of it; InvalidKeyError.

    mail has CRLF line ends, and nothing of it may change afterwards.
    """
    private = _kept_key(key.private_key)
    head, _, body = mail.partition(b"\r\n\r\n")
    headers = _relaxed_headers(_parsed(head + b"\r\n")[0])
    names = [*(name for name, _ in headers if name in _SIGNED), *_SEALED]
    body_hash = hashlib.sha256(_relaxed_body(body)).digest()
    value = b"\r\n\t".join(
        (
            b" v=1; a=rsa-sha256; c=relaxed/relaxed; t=%d;" % now.timestamp(),
            b"d=" + key.domain.encode("ascii") + b";",
            b"s=" + key.selector.encode("ascii") + b";",
            b"h=" + _folded(names) + b";",
            b"bh=" + base64.b64encode(body_hash) + b";",
            b"b=",
        )
    )
    ((name, canonical),) = _relaxed_headers([(b"DKIM-Signature", value)])
    signed = [*_selected(headers, names), (name, canonical.rstrip())]
    raw = private.sign(b"".join(name + b":" + value for name, value in signed), PKCS1v15(), SHA256())
    text = base64.b64encode(raw)
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return b"DKIM-Signature:" + value + b"\r\n\t".join(lines) + b"\r\n"


def _folded(names: list[bytes]) -> bytes:
    """The list of h=, in lines."""
    lines = [b""]
    for name in names:
        if len(lines[-1]) + len(name) > _LINE:
            lines.append(b"")
        lines[-1] += name + b":"
    return b"\r\n\t".join(lines).removesuffix(b":")
