"""DKIM signatures, checked by dkimpy."""

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from shared.core.ports import DkimKey
from shared.providers.email.signature import InvalidKeyError, load_key, signature
from tests.dkim_key import SigningKey

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
SIGNING = SigningKey()
MAIL = (
    b"From: Shop <orders@shop.example>\r\n"
    b"To: ayse@example.com\r\n"
    b"Subject: a long\r\n  subject\t in two lines\r\n"
    b"Date: Thu, 15 Jan 2026 09:00:00 +0000\r\n"
    b"Message-ID: <1@shop.example>\r\n"
    b"List-Unsubscribe: <https://shop.example/u>\r\n"
    b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
    b"MIME-Version: 1.0\r\n"
    b"Content-Type: text/plain\r\n"
    b"X-Ulak-Reference: 1\r\n"
    b"\r\n"
    b"a  body \t with blanks \r\n"
    b".\r\n"
    b"\r\n"
    b"\r\n"
)


def signed(mail: bytes = MAIL, key: DkimKey = SIGNING.dkim) -> bytes:
    return signature(mail, key, NOW) + mail


@pytest.mark.parametrize(
    "mail",
    [
        pytest.param(MAIL, id="plain"),
        pytest.param(MAIL.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", id="empty-body"),
        pytest.param(MAIL.replace(b"a long", "Sipariş 🚚".encode()), id="utf8-header"),
        pytest.param(MAIL.replace(b"\r\n\r\n", b"\r\n\r\n\r\n\r\n", 1), id="body-begins-with-empty-lines"),
        pytest.param(MAIL.replace(b"ayse@example.com", b",\r\n ".join([b"a@example.com"] * 50)), id="50-recipients"),
    ],
)
def test_verifies(mail: bytes) -> None:
    assert SIGNING.verifies(signed(mail))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"two  lines", b"two lines"),
        (b"To: ayse@example.com", b"to:   ayse@example.com  "),
        (b"with blanks \r\n", b"with blanks\r\n"),
        (b".\r\n\r\n\r\n", b".\r\n"),
    ],
)
def test_what_relays_do_to_white_space_leaves_it_valid(before: bytes, after: bytes) -> None:
    assert SIGNING.verifies(signed().replace(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"ayse@", b"veli@", id="to"),
        pytest.param(b"orders@", b"owners@", id="from"),
        pytest.param(b"two lines", b"three lines", id="subject"),
        pytest.param(b"09:00:00", b"09:00:01", id="date"),
        pytest.param(b"<1@", b"<2@", id="message-id"),
        pytest.param(b"shop.example/u", b"evil.example/u", id="unsubscribe"),
        pytest.param(b"One-Click", b"None", id="unsubscribe-post"),
        pytest.param(b"text/plain", b"text/html", id="content-type"),
        pytest.param(b"a  body", b"my body", id="body"),
    ],
)
def test_a_change_breaks_it(before: bytes, after: bytes) -> None:
    mail = signed()
    assert before in mail
    assert not SIGNING.verifies(mail.replace(before, after))


@pytest.mark.parametrize("header", ["From", "Subject", "To", "Cc", "Reply-To"])
def test_no_second_header_can_be_added(header: str) -> None:
    assert not SIGNING.verifies(f"{header}: other <other@evil.example>\r\n".encode() + signed())


def test_headers_of_the_way_can_be_added() -> None:
    assert SIGNING.verifies(b"Received: from a by b; Thu, 15 Jan 2026 09:00:01 +0000\r\n" + signed())


def test_the_time_is_an_argument_and_lines_are_short() -> None:
    header = signature(MAIL, SIGNING.dkim, NOW)
    assert b" t=1768467600;" in header
    assert max(len(line) for line in header.split(b"\r\n")) <= 78


@pytest.mark.parametrize("form", [serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL])
def test_both_forms_of_pem(form: serialization.PrivateFormat) -> None:
    assert SIGNING.verifies(signed(key=DkimKey("shop.example", "s1", SIGNING.pem(form))))


def test_keys_that_cannot_sign_are_told_without_the_key() -> None:
    short = b"-----BEGIN RSA PRIVATE KEY-----\nSECRET\n-----END RSA PRIVATE KEY-----\n"
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for pem in (b"", b"no key", short, other):
        with pytest.raises(InvalidKeyError, match="openssl genrsa") as caught:
            load_key(pem)
        assert "SECRET" not in str(caught.value)
