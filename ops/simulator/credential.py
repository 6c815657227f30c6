"""Keys and certificates that the simulator makes for its clients, kept in its state folder.

What is there is used again, so that clients survive a restart of the simulator. Files with keys are readable by their
owner only.
"""

import ipaddress
import secrets
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY: Final = timedelta(days=825)
"""The longest that common TLS clients accept for a server certificate."""
_RENEW_BEFORE: Final = timedelta(days=30)

SERVICE_ACCOUNT_KEY_BITS: Final = 2048
"""What Google issues."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate authority's PEM file, and the server's certificate with its key."""

    ca_file: Path
    certificate_file: Path
    key_file: Path

    def server_context(self, *alpn: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate_file, self.key_file)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context


@dataclass(frozen=True, slots=True)
class ApnsKey:
    """A provider signing key as Apple's developer page hands it out: `AuthKey_<key id>.p8`."""

    file: Path
    key_id: str
    team_id: str
    public_key: ec.EllipticCurvePublicKey


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A Google service account; `file` is its JSON, as google-auth and firebase-admin read it."""

    file: Path
    project_id: str
    client_email: str
    private_key_id: str
    public_key: rsa.RSAPublicKey


def _write_private(path: Path, content: bytes) -> None:
    """Written beside and renamed, so that a reader never finds half a key."""
    beside = path.with_suffix(path.suffix + ".new")
    beside.touch(mode=0o600)
    beside.write_bytes(content)
    beside.replace(path)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def secret(folder: Path, name: str) -> str:
    """A random secret kept in `folder/name`: 32 lower-case hex digits."""
    path = folder / name
    if not path.exists():
        _write_private(path, secrets.token_hex(16).encode())
    return path.read_text().strip()


def keep(folder: Path, name: str, value: str) -> Path:
    """Store a given secret where clients look for it."""
    path = folder / name
    _write_private(path, value.encode())
    return path


def tls(folder: Path, now: datetime) -> Tls:
    """A certificate for localhost, 127.0.0.1 and ::1 under a certificate authority of its own."""
    found = Tls(folder / "ca.pem", folder / "server.pem", folder / "server-key.pem")
    if all(path.exists() for path in (found.ca_file, found.certificate_file, found.key_file)):
        certificate = x509.load_pem_x509_certificate(found.certificate_file.read_bytes())
        if certificate.not_valid_after_utc - _RENEW_BEFORE > now:
            return found
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("Ulak provider simulator CA", ca_key.public_key(), now, issuer=None, signed_by=ca_key)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate("localhost", key.public_key(), now, issuer=ca, signed_by=ca_key)
    _write_private(found.key_file, _pem(key))
    found.certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    found.ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    return found


def _certificate(
    common_name: str,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    *,
    issuer: x509.Certificate | None,
    signed_by: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    """An authority without `issuer`, else a server's certificate; with all that a strict X.509 check asks for."""
    authority = issuer is None
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if issuer is None else issuer.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - timedelta(days=1))
        .not_valid_after(now.astimezone(UTC) + _VALIDITY)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signed_by.public_key()),
            critical=False,
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=authority,
                crl_sign=authority,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    if not authority:
        names = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("::1")),
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    return builder.sign(signed_by, hashes.SHA256())


def apns_key(folder: Path, key_id: str, team_id: str) -> ApnsKey:
    """The ES256 signing key (Apple, 'Establishing a token-based connection to APNs')."""
    path = folder / f"AuthKey_{key_id}.p8"
    key = p256_key(folder, path.name)
    return ApnsKey(path, key_id, team_id, key.public_key())


def p256_key(folder: Path, name: str) -> ec.EllipticCurvePrivateKey:
    """A P-256 key kept in `folder/name` as PEM: a sender's VAPID key (RFC 8292), a browser's own (RFC 8291)."""
    path = folder / name
    if not path.exists():
        _write_private(path, _pem(ec.generate_private_key(ec.SECP256R1())))
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} holds no elliptic curve key: delete it, the simulator makes a new one")  # noqa: TRY004 - a wrong file, not a wrong type
    return key


def service_account(folder: Path, project_id: str, token_uri: str) -> ServiceAccount:
    """The service account, its key kept, its token_uri that of this run."""
    path = folder / "fcm-service-account.json"
    if path.exists():
        stored = orjson.loads(path.read_bytes())
        pem, key_id = stored["private_key"], stored["private_key_id"]
    else:
        pem = _pem(rsa.generate_private_key(public_exponent=65537, key_size=SERVICE_ACCOUNT_KEY_BITS)).decode()
        key_id = secrets.token_hex(20)
    key = serialization.load_pem_private_key(pem.encode(), password=None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError(f"{path} holds no RSA key: delete it, the simulator makes a new one")  # noqa: TRY004 - a wrong file, not a wrong type
    email = f"firebase-adminsdk@{project_id}.iam.gserviceaccount.com"
    document = {
        "type": "service_account",
        "project_id": project_id,
        "private_key_id": key_id,
        "private_key": pem,
        "client_email": email,
        "client_id": "100000000000000000000",
        "auth_uri": "https://accounts.google.com/o/oauth2/auth",
        "token_uri": token_uri,
        "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
        "client_x509_cert_url": f"https://www.googleapis.com/robot/v1/metadata/x509/{email}",
        "universe_domain": "googleapis.com",
    }
    _write_private(path, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return ServiceAccount(path, project_id, email, key_id, key.public_key())
