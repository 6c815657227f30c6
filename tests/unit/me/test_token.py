"""Whose word a token is: tables of what is believed and what is not (RFC 7519, 8725)."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Sequence
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from services.me.jwks import JwksError, JwksKeys, parse_jwks
from services.me.token import Identity, KeysUnavailableError, SecretKeys, TokenReader

SECRET = b"a secret of the tests, of more than 32 bytes"
ISSUER, AUDIENCE = "https://id.shop.example", "ulak"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WEAK_RSA = rsa.generate_private_key(public_exponent=65537, key_size=1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, **members: Any) -> dict[str, Any]:
    """The public half of a key as a member of a set."""
    if isinstance(key, rsa.RSAPrivateKey):
        text = RSAAlgorithm.to_jwk(key.public_key())
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        text = ECAlgorithm.to_jwk(key.public_key())
    else:
        text = OKPAlgorithm.to_jwk(key.public_key())
    found: dict[str, Any] = json.loads(text)
    return found | members


def document(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    made = {"sub": "7", "iss": ISSUER, "aud": AUDIENCE, "exp": now + 600} | changes
    return {name: value for name, value in made.items() if value is not None}


def secret_reader(leeway_sec: float = 0) -> TokenReader:
    return TokenReader(SecretKeys(SECRET), issuer=ISSUER, audience=AUDIENCE, leeway_sec=leeway_sec)


class Signer:
    """A key set whose document the test changes, and a clock."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.document: bytes | None = document(*keys)
        self.reads = 0
        self.now = 1000.0

    async def read(self) -> bytes:
        self.reads += 1
        if self.document is None:
            raise JwksError("answered 500")
        return self.document

    def keys(self, algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA")) -> JwksKeys:
        return JwksKeys(self.read, frozenset(algorithms), refresh_sec=300, retry_sec=10, clock=lambda: self.now)

    def reader(self, algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA")) -> TokenReader:
        return TokenReader(self.keys(algorithms), issuer=ISSUER, audience=AUDIENCE, leeway_sec=0)


def signed(key: Any, algorithm: str, key_id: str | None = "a", **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers=None if key_id is None else {"kid": key_id})


def unsigned(header: dict[str, Any], payload: dict[str, Any]) -> str:
    return f"{_base64url(json.dumps(header).encode())}.{_base64url(json.dumps(payload).encode())}."


def with_hmac(header: dict[str, Any], payload: dict[str, Any], key: bytes) -> str:
    """A token as no library would make it: any claims, any key."""
    text = unsigned(header, payload).removesuffix(".")
    return f"{text}.{_base64url(hmac.digest(key, text.encode(), hashlib.sha256))}"


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("sub", "user"),
    [
        ("7", "7"),
        (7, "7"),
        (-7, "-7"),
        (2**63 - 1, str(2**63 - 1)),
        (2**63, None),
        ("ayşe@example.com", "ayşe@example.com"),
        ("x" * 128, "x" * 128),
        ("x" * 129, None),
        ("", None),
        ("7\n8", None),
        (True, None),
        (7.0, None),
        (["7"], None),
        ({"id": 7}, None),
        (None, None),
    ],
)
async def test_the_subject_is_the_user(sub: Any, user: str | None) -> None:
    identity = await secret_reader().read(jwt.encode(claims(sub=sub), SECRET, algorithm="HS256"))
    assert (identity.user if identity else None) == user


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": None},
        {"exp": int(time.time()) - 5},
        {"exp": "soon"},
        {"exp": 1e400},
        {"iss": None},
        {"iss": "https://id.shop.example/"},
        {"iss": [ISSUER]},
        {"aud": None},
        {"aud": "other"},
        {"aud": []},
        {"aud": [7]},
        {"nbf": int(time.time()) + 3600},
    ],
    ids=lambda changes: "-".join(f"{name}:{type(value).__name__}" for name, value in changes.items()),
)
async def test_claims_that_are_missing_or_wrong_are_refused(changes: dict[str, Any]) -> None:
    assert await secret_reader().read(with_hmac({"alg": "HS256"}, claims(**changes), SECRET)) is None
    assert await secret_reader().read(with_hmac({"alg": "HS256"}, claims(), SECRET)) is not None


async def test_the_leeway_forgives_a_clock_and_no_more() -> None:
    just_over = jwt.encode(claims(exp=int(time.time()) - 60), SECRET, algorithm="HS256")
    assert await secret_reader(leeway_sec=120).read(just_over) is not None
    assert await secret_reader(leeway_sec=30).read(just_over) is None


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
async def test_a_secret_is_for_hs256_alone(algorithm: str) -> None:
    assert await secret_reader().read(jwt.encode(claims(), SECRET * 2, algorithm=algorithm)) is None
    reader = TokenReader(SecretKeys(SECRET * 2), issuer=ISSUER, audience=AUDIENCE, leeway_sec=0)
    assert await reader.read(jwt.encode(claims(), SECRET * 2, algorithm=algorithm)) is None


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", "", None, 7, ["HS256"]])
async def test_an_unsigned_token_is_refused_by_secrets_and_key_sets(name: Any) -> None:
    text = unsigned({"alg": name, "kid": "a"}, claims())
    assert await secret_reader().read(text) is None
    assert await Signer(jwk(RSA, kid="a")).reader().read(text) is None


async def test_a_public_key_is_no_secret() -> None:
    """Algorithm confusion: the token is signed by HMAC with what everybody may read of the key set."""
    public = RSA.public_key()
    reader = Signer(jwk(RSA, kid="a")).reader()
    for form in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(jwk(RSA, kid="a")).encode(),
    ):
        assert await reader.read(with_hmac({"alg": "HS256", "kid": "a"}, claims(), form)) is None


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (EC, "ES256"), (ED, "EdDSA")], ids=["RS256", "ES256", "EdDSA"]
)
async def test_a_key_of_the_set_is_believed_with_its_algorithm(key: Any, algorithm: str) -> None:
    text = signed(key, algorithm)
    expires_at = jwt.decode(text, options={"verify_signature": False})["exp"]
    assert await Signer(jwk(key, kid="a")).reader().read(text) == Identity("7", expires_at)


@pytest.mark.parametrize(
    ("entry", "token"),
    [
        pytest.param(jwk(RSA, kid="a"), signed(OTHER_RSA, "RS256"), id="another-key"),
        pytest.param(jwk(RSA, kid="a"), signed(RSA, "PS256"), id="algorithm-not-allowed"),
        pytest.param(jwk(RSA, kid="a", alg="PS256"), signed(RSA, "RS256"), id="key-names-another-algorithm"),
        pytest.param(jwk(RSA, kid="a", use="enc"), signed(RSA, "RS256"), id="key-for-encryption"),
        pytest.param(jwk(RSA, kid="b"), signed(RSA, "RS256"), id="another-key-id"),
        pytest.param(jwk(RSA, kid="b"), signed(RSA, "RS256", None), id="no-key-id"),
        pytest.param(
            {"kty": "oct", "kid": "a", "k": base64.urlsafe_b64encode(SECRET).decode()},
            jwt.encode(claims(), SECRET, algorithm="HS256", headers={"kid": "a"}),
            id="a-secret-in-the-set",
        ),
    ],
)
async def test_what_a_key_set_does_not_vouch_for_is_refused(entry: dict[str, Any], token: str) -> None:
    signer = Signer(entry, jwk(EC, kid="z"))
    assert await signer.reader().read(token) is None


async def test_critical_extensions_and_odd_texts_are_refused() -> None:
    for text in (
        jwt.encode(claims(), SECRET, algorithm="HS256", headers={"crit": ["x"], "x": 1}),
        "",
        "a",
        "a.b.c",
        "a.b.c.d",
        "ş.ş.ş",
        "x" * 100_000,
    ):
        assert await secret_reader().read(text) is None


async def test_the_set_is_read_once_and_again_when_it_is_old() -> None:
    signer = Signer(jwk(RSA, kid="a"))
    reader = signer.reader()
    for _ in range(3):
        assert await reader.read(signed(RSA, "RS256"))
    assert signer.reads == 1
    signer.now += 301
    assert await reader.read(signed(RSA, "RS256"))
    assert signer.reads <= 2  # read beside the request, which need not wait for it


async def test_a_new_key_is_found_at_once_and_a_removed_one_is_not_believed() -> None:
    signer = Signer(jwk(RSA, kid="a"))
    reader = signer.reader()
    assert await reader.read(signed(RSA, "RS256"))
    signer.document = document(jwk(EC, kid="b"))
    signer.now += 11
    assert await reader.read(signed(EC, "ES256", "b"))
    assert await reader.read(signed(RSA, "RS256")) is None


async def test_invented_key_ids_do_not_make_us_read_more_often() -> None:
    signer = Signer(jwk(RSA, kid="a"))
    reader = signer.reader()
    for number in range(50):
        assert await reader.read(signed(RSA, "RS256", f"invented-{number}")) is None
    assert signer.reads == 1
    signer.now += 11
    for number in range(50):
        assert await reader.read(signed(RSA, "RS256", f"invented-{number}")) is None
    assert signer.reads == 2


async def test_the_keys_stay_while_the_set_cannot_be_read() -> None:
    signer = Signer(jwk(RSA, kid="a"))
    reader = signer.reader()
    assert await reader.read(signed(RSA, "RS256"))
    for broken in (None, b"<html>", document(), b'{"keys": 7}'):
        signer.document = broken
        signer.now += 400
        assert await reader.read(signed(RSA, "RS256")), broken
        assert await reader.read(signed(EC, "ES256", "b")) is None


async def test_a_set_that_never_was_read_is_our_fault_and_not_the_tokens() -> None:
    signer = Signer()
    signer.document = None
    reader = signer.reader()
    with pytest.raises(KeysUnavailableError):
        await reader.read(signed(RSA, "RS256"))
    assert not await JwksKeys(
        signer.read, frozenset({"RS256"}), refresh_sec=300, retry_sec=10, clock=lambda: 0.0
    ).ready()
    signer.document = document(jwk(RSA, kid="a"))
    signer.now += 11
    assert await reader.read(signed(RSA, "RS256"))


def test_weak_keys_are_left_out() -> None:
    with pytest.raises(JwksError, match="no key"):
        parse_jwks(document(jwk(WEAK_RSA, kid="a")), frozenset({"RS256"}))


def test_a_set_of_too_many_keys_is_refused() -> None:
    with pytest.raises(JwksError, match="100 keys"):
        parse_jwks(document(*[jwk(RSA, kid=str(number)) for number in range(101)]), frozenset({"RS256"}))
