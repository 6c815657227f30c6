"""Sender profiles over the API: their keys go in, are sealed, and never come out."""

from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from shared.core.sealing import KeyRing, Purpose, open_sealed
from tests.integration.ingest.admin.audit import audited, whole_log
from tests.integration.ingest.conftest import Ingest

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PATH = "/internal/v1/sender-profiles"
PEM = (
    rsa.generate_private_key(65537, 1024)
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode()
)
DKIM = {"domain": "shop.example", "selector": "s1"}
ORDERS: dict[str, Any] = {"from": "Shop Orders <orders@shop.example>", "replyTo": "help@shop.example"}


async def put(ingest: Ingest, body: Any, match: str | None = None, name: str = "orders") -> httpx.Response:
    headers = {} if match is None else {"if-match": match}
    return await ingest.client.put(f"{PATH}/{name}", json=body, headers=headers)


async def sealed_key(ingest: Ingest, ring: KeyRing) -> str:
    sealed = await ingest.pool.fetchval("SELECT dkim_key_sealed FROM ulak.sender_profiles WHERE name = 'orders'")
    return open_sealed(ring, Purpose.DKIM, b"orders", sealed).decode()


async def test_a_key_goes_in_and_never_comes_out(ingest: Ingest, key_ring: KeyRing) -> None:
    created = await put(ingest, ORDERS | {"dkim": DKIM | {"privateKey": PEM}})

    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    read = await ingest.client.get(f"{PATH}/orders")
    listed = await ingest.client.get(PATH)
    assert read.json() == created.json() == listed.json()["items"][0]
    assert read.json() | {"updatedAt": 0} == {
        "name": "orders",
        "from": '"Shop Orders" <orders@shop.example>',
        "replyTo": "help@shop.example",
        "returnPath": None,
        "dkim": DKIM,
        "updatedAt": 0,
    }
    assert await sealed_key(ingest, key_ring) == PEM
    told = created.text + read.text + listed.text + await whole_log(ingest.pool)
    assert not [line for line in PEM.splitlines() if line in told]
    assert await audited(ingest.pool) == [("created", "sender_profile", "orders")]


async def test_what_is_told_can_be_sent_back_and_keeps_the_key(ingest: Ingest, key_ring: KeyRing) -> None:
    created = await put(ingest, ORDERS | {"dkim": DKIM | {"privateKey": PEM}})
    told = {name: value for name, value in created.json().items() if name not in {"name", "updatedAt"}}

    assert (await put(ingest, told, '"1"')).headers["etag"] == '"1"', "the same again is no change"
    changed = await put(ingest, told | {"dkim": DKIM | {"selector": "s2"}}, '"1"')

    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    assert await sealed_key(ingest, key_ring) == PEM
    assert (await put(ingest, told, '"1"')).status_code == 412
    assert (await put(ingest, told | {"dkim": None}, '"2"')).json()["dkim"] is None
    assert (await put(ingest, told, '"3"')).json()["code"] == "invalid_definition", "the key is gone"


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        pytest.param({"from": "nobody"}, "from", id="from"),
        pytest.param({"from": "Şop <ş@shop.example>"}, "from", id="smtputf8"),
        pytest.param({"replyTo": "a@shop.example\r\nBcc: b@shop.example"}, "replyTo", id="injection"),
        pytest.param({"returnPath": "Name <a@shop.example>"}, "returnPath", id="return-path"),
        pytest.param({"dkim": DKIM}, "dkim.privateKey", id="no-key"),
        pytest.param({"dkim": DKIM | {"privateKey": "secret"}}, "dkim.privateKey", id="key"),
        pytest.param({"dkim": DKIM | {"domain": "shop"}}, "dkim.domain", id="domain"),
        pytest.param({"dkim": DKIM | {"selector": "a b"}}, "dkim.selector", id="selector"),
    ],
)
async def test_a_wrong_profile_names_its_field(ingest: Ingest, changed: dict[str, Any], path: str) -> None:
    with_key = {"dkim": DKIM | {"privateKey": PEM}} if path == "dkim.domain" else {}
    refused = await put(ingest, ORDERS | changed | ({"dkim": with_key["dkim"] | changed["dkim"]} if with_key else {}))
    assert refused.status_code == 422
    assert [error["path"] for error in refused.json()["errors"]] == [path]
    assert "secret" not in refused.text
    assert await audited(ingest.pool) == []


async def test_a_profile_that_is_used_stays(ingest: Ingest) -> None:
    await put(ingest, ORDERS)
    await ingest.pool.execute("UPDATE ulak.notification_types SET sender_profile = 'orders' WHERE type = 'OTP'")

    async def remove(match: str | None) -> httpx.Response:
        return await ingest.client.delete(f"{PATH}/orders", headers={} if match is None else {"if-match": match})

    assert (await remove(None)).status_code == 428
    used = await remove('"1"')
    assert (used.status_code, used.json()["code"]) == (409, "in_use")
    await ingest.pool.execute("UPDATE ulak.notification_types SET sender_profile = NULL")
    assert (await remove('"1"')).status_code == 204
    assert (await remove('"1"')).status_code == 404
    assert [line[0] for line in await audited(ingest.pool)] == ["created", "deleted"]
