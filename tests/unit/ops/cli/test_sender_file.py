"""Senders in catalogue files: what they say, and every mistake told by its field, with the remedy."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ops.cli.catalogue_file import CatalogueFiles, read_catalogue_files
from shared.core.ports import DkimKey, SenderProfile
from shared.postgres.catalogue_write import NewSender
from shared.wire.channel import DEFAULT_CHANNELS

TYPE = {"category": "TRANSACTIONAL", "channels": ["EMAIL"], "ttl": "1h"}


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, passphrase: bytes | None = None) -> bytes:
    encryption = (
        serialization.NoEncryption() if passphrase is None else serialization.BestAvailableEncryption(passphrase)
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def read(folder: Path, senders: Any, **types: Any) -> CatalogueFiles:
    (folder / "all.yaml").write_text(yaml.safe_dump({"senders": senders, "types": types}), encoding="utf-8")
    return read_catalogue_files(folder, DEFAULT_CHANNELS, known_types={}, known_senders={"known"}, profile="TR")


def test_what_a_sender_says(tmp_path: Path) -> None:
    key = pem(rsa.generate_private_key(65537, 1024))
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/orders.pem").write_bytes(key)
    found = read(
        tmp_path,
        {
            "orders": {
                "from": 'Mağaza, "Siparişler" <orders@çiçek.example>',
                "replyTo": "Yardım <help@shop.example>",
                "returnPath": "bounces@shop.example",
                "dkim": {"domain": "çiçek.example", "selector": "s1.mail", "keyFile": "keys/orders.pem"},
            },
            "plain": {"from": "no-reply@shop.example"},
        },
        A=TYPE | {"sender": "orders"},
        B=TYPE | {"sender": "known"},
        C=TYPE,
    )
    assert found.problems == ()
    assert found.push.senders == (
        NewSender(
            "orders",
            SenderProfile(
                "orders@xn--iek-1lab.example",
                'Mağaza, "Siparişler"',
                '"Yardım" <help@shop.example>',
                "bounces@shop.example",
                DkimKey("xn--iek-1lab.example", "s1.mail", key),
            ),
        ),
        NewSender("plain", SenderProfile("no-reply@shop.example")),
    )
    assert [new.type.sender_profile for new in found.push.types] == ["orders", "known", None]
    assert "PRIVATE" not in repr(found)


@pytest.mark.parametrize(
    ("changes", "place", "said"),
    [
        pytest.param({"from": "nobody"}, "from", "give one like name@example.com", id="no-address"),
        pytest.param({"from": "Shop <ş@shop.example>"}, "from", "ASCII letters", id="smtputf8"),
        pytest.param({"from": "Shop\u202e <a@shop.example>"}, "from", "U+202E in an address", id="turned-over"),
        pytest.param({"from": "A\r\nBcc: x@y.example <a@shop.example>"}, "from", "control character", id="injection"),
        pytest.param({"from": "x" * 129 + " <a@shop.example>"}, "from", "128 characters", id="long-name"),
        pytest.param({"from": None}, "from", "give a text", id="none"),
        pytest.param({"replyTo": "help"}, "replyTo", "name@example.com", id="reply-to"),
        pytest.param({"replyTo": "Yardım <ş@shop.example>"}, "replyTo", "ASCII letters", id="reply-to-smtputf8"),
        pytest.param({"returnPath": "B <b@shop.example>"}, "returnPath", "address alone", id="return-path-name"),
        pytest.param({"returnPath": "ş@shop.example"}, "returnPath", "ASCII letters", id="return-path-smtputf8"),
        pytest.param({"replyto": "a@shop.example"}, "replyto", "not known here", id="unknown-field"),
        pytest.param({"dkim": {"domain": "not a domain"}}, "dkim.domain", "like shop.example", id="domain"),
        pytest.param({"dkim": {"selector": "a b"}}, "dkim.selector", "characters", id="selector"),
        pytest.param({"dkim": {"keyFile": "no.pem"}}, "dkim.keyFile", "relative to the catalogue file", id="no-file"),
        pytest.param({"dkim": {"keyFile": "text.pem"}}, "dkim.keyFile", "openssl genrsa", id="no-key"),
        pytest.param({"dkim": {"keyFile": "ec.pem"}}, "dkim.keyFile", "not an RSA key", id="ec"),
        pytest.param({"dkim": {"keyFile": "locked.pem"}}, "dkim.keyFile", "passphrase", id="locked"),
        pytest.param({"dkim": {"keyFile": "large.pem"}}, "dkim.keyFile", "16384 bytes", id="large"),
    ],
)
def test_mistakes_are_told_by_field(tmp_path: Path, changes: dict[str, Any], place: str, said: str) -> None:
    (tmp_path / "text.pem").write_text("-----BEGIN NOTHING-----")
    (tmp_path / "large.pem").write_text("x" * 16_385)
    (tmp_path / "ec.pem").write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))
    (tmp_path / "locked.pem").write_bytes(pem(ec.generate_private_key(ec.SECP256R1()), b"secret"))
    dkim = {"domain": "shop.example", "selector": "s1", "keyFile": "text.pem"}
    sender = {"from": "orders@shop.example"} | changes
    if "dkim" in changes:
        sender["dkim"] = dkim | changes["dkim"]
    (problem,) = read(tmp_path, {"orders": sender}).problems
    assert problem.place == f"senders.orders.{place}"
    assert said in problem.message


def test_type_must_name_a_sender_that_is_there(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, {}, T=TYPE | {"sender": "missing"}).problems
    assert (problem.place, problem.message) == ("types.T.sender", "no sender missing: declare it under `senders`")


def test_same_sender_twice_is_told(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("senders: {orders: {from: a@shop.example}}\n")
    (problem,) = read(tmp_path, {"orders": {"from": "b@shop.example"}}).problems
    assert (problem.file, problem.place, problem.message) == (
        "more.yaml",
        "senders.orders",
        "stands in all.yaml as well",
    )
