"""Event mappings over the API: what no event could be read through, or no template rendered with, is refused."""

from typing import Any

import httpx
import pytest

from shared.postgres.catalogue import read_catalogue
from tests.integration.ingest.admin.audit import audited, last_detail
from tests.integration.ingest.conftest import Ingest

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PATH = "/internal/v1/event-mappings"
SHIPPED: dict[str, Any] = {
    "event": "OrderShipped",
    "type": "ORDER_SHIPPED",
    "recipient": "data.userId",
    "params": {"orderNo": "data.orderNo", "carrier": "data.carrier", "trackingUrl": "data.url"},
}


async def put(ingest: Ingest, body: Any, match: str | None = None) -> httpx.Response:
    headers = {} if match is None else {"if-match": match}
    return await ingest.client.put(f"{PATH}/shipped", json=body, headers=headers)


async def test_a_mapping_is_made_changed_switched_off_and_removed(ingest: Ingest) -> None:
    created = await put(ingest, SHIPPED)
    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    read = await ingest.client.get(f"{PATH}/shipped")
    assert read.json() == created.json() == (await ingest.client.get(PATH)).json()["items"][0]
    assert read.json() | {"updatedAt": 0} == SHIPPED | {
        "name": "shipped",
        "role": "",
        "businessKey": None,
        "active": True,
        "updatedAt": 0,
    }
    assert (await put(ingest, SHIPPED)).status_code == 428
    assert (await put(ingest, SHIPPED, "*")).headers["etag"] == '"1"', "the same again is no change"

    off = await put(ingest, SHIPPED | {"active": False}, '"1"')

    assert (off.status_code, off.headers["etag"]) == (200, '"2"')
    assert await last_detail(ingest.pool) == {"event": "OrderShipped", "type": "ORDER_SHIPPED", "active": False}
    assert (await read_catalogue(ingest.pool)).mappings("OrderShipped") == ()
    assert (await put(ingest, SHIPPED, '"1"')).status_code == 412
    assert (await ingest.client.delete(f"{PATH}/shipped", headers={"if-match": '"1"'})).status_code == 412
    assert (await ingest.client.delete(f"{PATH}/shipped", headers={"if-match": '"2"'})).status_code == 204
    assert (await ingest.client.get(f"{PATH}/shipped")).status_code == 404
    assert [line[0] for line in await audited(ingest.pool)] == ["created", "updated", "deleted"]


@pytest.mark.parametrize(
    ("changed", "paths"),
    [
        pytest.param({"recipient": "data.["}, ["recipient"], id="recipient"),
        pytest.param({"params": SHIPPED["params"] | {"orderNo": "]"}}, ["params.orderNo"], id="expression"),
        pytest.param({"businessKey": "a b"}, ["businessKey"], id="business-key"),
        pytest.param({"type": "NOBODY_KNOWS"}, ["type"], id="type"),
        pytest.param({"params": {"orderNo": "data.orderNo"}}, ["params"], id="too-little"),
        pytest.param({"event": ""}, ["event"], id="event"),
        pytest.param({"channel": "PUSH"}, ["channel"], id="unknown-field"),
    ],
)
async def test_a_wrong_mapping_names_its_field(ingest: Ingest, changed: dict[str, Any], paths: list[str]) -> None:
    refused = await put(ingest, SHIPPED | changed)
    assert refused.status_code == 422
    assert [error["path"] for error in refused.json()["errors"]] == paths
    assert await audited(ingest.pool) == []
