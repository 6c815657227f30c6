"""A DKIM key, and a name server made of a dictionary that knows its public half."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import dkim
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from shared.core.ports import DkimKey

_verify: Final[Callable[..., bool]] = dkim.verify


@dataclass(frozen=True)
class SigningKey:
    """Signs for `domain` under `selector`; what it signed verifies for whoever asks DNS."""

    domain: str = "shop.example"
    selector: str = "s1"
    private: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 1024))

    def pem(self, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
        return self.private.private_bytes(Encoding.PEM, form, NoEncryption())

    @property
    def dkim(self) -> DkimKey:
        return DkimKey(self.domain, self.selector, self.pem())

    def verifies(self, mail: bytes) -> bool:
        """What a receiver finds: the signature is there, of this domain, and over this mail."""
        public = self.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        names = {
            f"{self.selector}._domainkey.{self.domain}.".encode(): b"v=DKIM1; k=rsa; p=" + base64.b64encode(public)
        }
        return _verify(mail, dnsfunc=lambda name, timeout: names.get(name))
