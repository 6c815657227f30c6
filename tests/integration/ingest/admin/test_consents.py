"""The ledger of consents over the API; fixtures: ingest (a running service), key_ring."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from shared.core.address import parse_email, target_key
from shared.core.consent import user_subject
from shared.core.sealing import KeyRing
from shared.postgres.recipient import RecipientProfile, push_recipients
from tests.integration.ingest.admin.audit import audited, last_detail
from tests.integration.ingest.conftest import Ingest, add_key

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PATH = "/internal/v1/consents"
YES: dict[str, Any] = {
    "address": "Ayse@example.com",
    "channel": "EMAIL",
    "granted": True,
    "at": "2026-11-01T12:00:00+03:00",
    "source": "HS_WEB",
    "wordingVersion": "2026-03",
    "evidence": "form 12, 192.0.2.7",
    "reference": "web-12",
}


async def told(ingest: Ingest, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await ingest.client.post(PATH, json={"items": list(lines)})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


async def states(ingest: Ingest, **asked: str) -> dict[str, bool]:
    answer = await ingest.client.get(PATH, params=asked)
    assert answer.status_code == 200, answer.text
    return {state["channel"]: state["granted"] for state in answer.json()["states"]}


async def test_one_line_stands_and_is_told_of(ingest: Ingest, key_ring: KeyRing) -> None:
    answer = await ingest.client.post(PATH, json=YES)
    [line] = answer.json()["items"]
    assert (answer.status_code, line["recorded"], line["stands"]) == (200, True, True)

    [again] = (await ingest.client.post(PATH, json=YES)).json()["items"]
    assert again == {"recorded": False, "stands": False}
    shown = (await ingest.client.get(PATH, params={"address": "ayse@Example.com"})).json()
    assert shown["states"] == [
        {"channel": "EMAIL", "purpose": "MARKETING", "granted": True, "at": "2026-11-01T09:00:00+00:00"}
    ]
    [entry] = shown["items"]
    assert entry["consentId"] == line["consentId"]
    assert (entry["address"], entry["wordingVersion"], entry["iys"]) == ("A***@example.com", "2026-03", "PENDING")
    assert "evidence" not in entry
    assert await audited(ingest.pool) == [("recorded", "consent", line["consentId"])]
    sealed = await ingest.pool.fetchval("SELECT address_sealed || evidence_sealed FROM ulak.consents")
    assert b"yse@" not in sealed
    assert await ingest.pool.fetchval("SELECT subject FROM ulak.consents") == target_key(
        key_ring, "EMAIL", parse_email("ayse@example.com").canonical
    )


async def test_a_withdrawal_is_at_once_and_an_older_consent_does_not_undo_it(ingest: Ingest) -> None:
    await told(ingest, YES)
    no = YES | {"granted": False, "at": "2026-11-02T12:00:00+03:00", "reference": "web-13"}
    late = YES | {"at": "2026-11-02T12:00:00+03:00", "reference": "web-14", "source": "HS_CAGRI_MERKEZI"}
    [refused] = await told(ingest, no)
    assert refused["stands"] is True
    assert await states(ingest, address="ayse@example.com") == {"EMAIL": False}
    [tie] = await told(ingest, late)
    assert (tie["recorded"], tie["stands"]) == (True, False)
    assert await states(ingest, address="ayse@example.com") == {"EMAIL": False}


async def test_a_users_consents_by_channel(ingest: Ingest, key_ring: KeyRing) -> None:
    await push_recipients(ingest.pool, key_ring, [RecipientProfile("ayse", email=parse_email("ayse@example.com"))])
    of_user = {key: value for key, value in YES.items() if key not in {"address", "reference", "evidence"}}
    lines = await told(
        ingest,
        of_user | {"userId": "ayse"},
        of_user | {"userId": "ayse", "channel": "PUSH", "source": "HS_MOBIL"},
        of_user | {"userId": 7, "channel": "PUSH"},
        of_user | {"userId": "ayse", "channel": "SMS"},
        of_user | {"userId": "ayse", "channel": "SMS", "address": "0532 123 45 67", "granted": False},
    )
    assert [line["recorded"] for line in lines] == [True, True, True, False, True]
    assert lines[3]["error"] == {"path": "address", "detail": "no SMS address is known of this user: send it"}
    assert await states(ingest, userId="ayse") == {"EMAIL": True, "PUSH": True}
    assert await states(ingest, address="+905321234567") == {"SMS": False}
    history = (await ingest.client.get(PATH, params={"userId": "ayse"})).json()["items"]
    assert [line["channel"] for line in history] == ["SMS", "PUSH", "EMAIL"], "also what was said of other addresses"
    assert await states(ingest, userId="7") == {"PUSH": True}
    seven = await ingest.pool.fetchval("SELECT user_id FROM ulak.recipients WHERE external_id = '7'")
    assert await ingest.pool.fetchval(
        "SELECT count(*) FROM ulak.consents WHERE subject = $1", user_subject(key_ring, seven)
    )
    assert await last_detail(ingest.pool) == {"lines": 4}
    assert await states(ingest, userId="nobody") == {}
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.iys_records") == 2, "push is not told to the registry"


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        pytest.param({"channel": "FAX"}, "channel", id="channel"),
        pytest.param({"address": "not an address"}, "address", id="address"),
        pytest.param({"channel": "SMS", "address": "+90212"}, "address", id="number"),
        pytest.param({"channel": "PUSH"}, "address", id="push-has-no-address"),
        pytest.param({"address": None}, "userId", id="nobody"),
        pytest.param({"channel": "PUSH", "address": None}, "userId", id="push-of-nobody"),
        pytest.param({"at": "2026-11-01"}, "at", id="no-time"),
        pytest.param({"at": (datetime.now(UTC) + timedelta(days=1)).isoformat()}, "at", id="tomorrow"),
        pytest.param({"source": "IYS"}, "source", id="not-the-callers-source"),
        pytest.param({"source": "HS_KARAR"}, "source", id="our-decision-is-no-consent"),
        pytest.param({"recipientKind": "ANYBODY"}, "recipientKind", id="kind"),
        pytest.param({"granted": "yes"}, "granted", id="text-for-a-word"),
        pytest.param({"colour": "red"}, "colour", id="unknown-field"),
    ],
)
async def test_a_wrong_line_names_its_field_and_takes_no_other_along(
    ingest: Ingest, changed: dict[str, Any], path: str
) -> None:
    wrong = {key: value for key, value in (YES | changed).items() if value is not None}
    alone = await ingest.client.post(PATH, json=wrong)
    assert alone.status_code == 422
    assert [error["path"] for error in alone.json()["errors"]] == [path]
    assert await audited(ingest.pool) == []
    [bad, good] = await told(ingest, wrong, YES)
    assert (bad["error"]["path"], good["recorded"]) == (path, True)
    assert "ayse" not in alone.text.lower()


async def test_batches_have_their_limit_and_a_key_its_scope(ingest: Ingest) -> None:
    many = [YES | {"address": f"user{number}@example.com", "reference": f"r{number}"} for number in range(1001)]
    answer = await ingest.client.post(PATH, json={"items": many})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_many_lines")
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.consents") == 0
    lines = await told(ingest, *many[:1000])
    assert all(line["stands"] for line in lines)
    assert (await ingest.client.post(PATH, json={"items": []})).status_code == 422
    assert (await ingest.client.get(PATH)).status_code == 422
    secret = await add_key(ingest.pool, scopes=("notifications",))
    refused = await ingest.client.post(PATH, json=YES, headers={"authorization": f"Bearer {secret}"})
    assert refused.status_code == 403


async def test_the_same_lines_by_many_at_once(ingest: Ingest) -> None:
    batch = [YES | {"address": f"user{number}@example.com", "reference": f"r{number}"} for number in range(20)]
    answers = await asyncio.gather(*(told(ingest, *batch[start:], *batch[:start]) for start in range(8)))
    assert sum(line["recorded"] for lines in answers for line in lines) == 20
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.consent_states WHERE granted") == 20


async def test_history_is_paged_and_the_export_has_all_of_it(ingest: Ingest, key_ring: KeyRing) -> None:
    for number in range(5):
        await told(
            ingest,
            YES | {"granted": number % 2 == 0, "at": f"2026-11-0{number + 1}T00:00:00Z", "reference": f"r{number}"},
        )
    first = (await ingest.client.get(PATH, params={"address": "ayse@example.com", "limit": "3"})).json()
    rest = (
        await ingest.client.get(PATH, params={"address": "ayse@example.com", "limit": "3", "cursor": first["cursor"]})
    ).json()
    assert [line["reference"] for line in first["items"] + rest["items"]] == ["r4", "r3", "r2", "r1", "r0"]
    assert rest["cursor"] is None

    exported = await ingest.client.get(f"{PATH}/export")
    assert exported.headers["content-type"].startswith("application/x-ndjson")
    lines = [orjson.loads(line) for line in exported.text.splitlines()]
    assert [line["reference"] for line in lines] == [f"r{number}" for number in range(5)]
    assert {(line["address"], line["evidence"]) for line in lines} == {("Ayse@example.com", "form 12, 192.0.2.7")}
    rest_of_it = await ingest.client.get(f"{PATH}/export", params={"after": lines[2]["consentId"]})
    assert len(rest_of_it.text.splitlines()) == 2
    assert ("exported", "consent", "all") in await audited(ingest.pool)
