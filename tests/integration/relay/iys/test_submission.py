"""Changes told to the registry, one by one and in batches, whatever goes wrong in between; fixture: registry."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from services.relay.iys.error import RegistryError
from shared.core.sealing import KeyRing
from shared.postgres.recipient import RecipientProfile, push_recipients
from shared.runtime.keyring import FixedRingSource
from tests.integration.relay.iys.conftest import Registry

pytestmark = pytest.mark.postgres


async def test_one_change_is_told_by_itself(registry: Registry) -> None:
    line = await registry.says()
    submission = await registry.submission()
    assert await submission.round() is False
    record = await registry.record(line.id)
    assert (record["state"], record["attempts"], record["code"]) == ("ACCEPTED", 1, None)
    assert await registry.standing() == "ONAY"
    [call] = await registry.told()
    assert call["content"]["path"].endswith("/consents")
    await submission.round()
    assert len(await registry.told()) == 1, "what was told is not told again"


async def test_several_are_told_together_and_asked_about(registry: Registry) -> None:
    lines = [await registry.says(index) for index in range(3)]
    await registry.says(3, channel="EMAIL", address="ayse-iys@example.com")
    await (await registry.submission()).round()
    assert await registry.states() == {"SUBMITTED": 4}
    records = [await registry.record(line.id) for line in lines]
    assert len({record["request_id"] for record in records}) == 1
    assert len({record["sub_request_id"] for record in records}) == 3
    follow_up = await registry.follow_up()
    await registry.due_now()
    await follow_up.round()
    assert await registry.states() == {"SUBMITTED": 4}, "the registry has them in its queue"
    await registry.due_now()
    await follow_up.round()
    assert await registry.states() == {"ACCEPTED": 4}
    assert [await registry.standing(index) for index in range(3)] == ["ONAY"] * 3


async def test_a_withdrawal_follows_its_consent(registry: Registry) -> None:
    await registry.says()
    submission = await registry.submission()
    await submission.round()
    refusal = await registry.says(granted=False, minutes=1)
    await submission.round()
    assert (await registry.record(refusal.id))["state"] == "ACCEPTED"
    assert await registry.standing() == "RET"


async def test_what_the_registry_will_not_have_is_rejected_with_its_code_and_field(registry: Registry) -> None:
    foreign = await registry.says(address="+4915112345678")
    submission = await registry.submission()
    await submission.round()
    record = await registry.record(foreign.id)
    assert (record["state"], record["code"], record["attempts"]) == ("REJECTED", "S114", 1)
    assert record["detail"].startswith("recipient: ")
    assert "4915" not in record["detail"]
    await registry.due_now()
    await submission.round()
    assert (await registry.record(foreign.id))["attempts"] == 1, "a field's error is never retried"


async def test_one_bad_line_of_a_batch_fails_alone(registry: Registry) -> None:
    bad = await registry.says(address="+4915112345679")
    good = [await registry.says(index) for index in range(2)]
    await (await registry.submission()).round()
    follow_up = await registry.follow_up()
    for _ in range(2):
        await registry.due_now()
        await follow_up.round()
    assert (await registry.record(bad.id))["state"] == "REJECTED"
    assert {(await registry.record(line.id))["state"] for line in good} == {"ACCEPTED"}


async def test_a_batch_that_is_refused_as_a_whole_is_told_in_halves(registry: Registry) -> None:
    lines = [await registry.says(index) for index in range(4)]
    await registry.fault(to=registry.number(2), times=2, status=422)  # of four, and of its half
    await registry.fault(to=registry.number(2), status=422, body={"errors": [{"code": "H111", "message": "yok"}]})
    await (await registry.submission()).round()
    assert await registry.states() == {"SUBMITTED": 2, "ACCEPTED": 1, "REJECTED": 1}
    assert (await registry.record(lines[2].id))["code"] == "H111"


@pytest.mark.parametrize(
    ("action", "rest_sec"),
    [
        pytest.param({"status": 503}, 10, id="down"),
        pytest.param({"status": 429, "headers": {"Retry-After": "120"}}, 120, id="busy"),
        pytest.param({"drop": "beforeRead"}, 10, id="connection-lost"),
        pytest.param({"status": 403}, 10, id="not-our-brand"),
    ],
)
async def test_what_passes_is_told_again_later(registry: Registry, action: dict[str, Any], rest_sec: float) -> None:
    line = await registry.says()
    await registry.fault(**action)
    with pytest.raises(RegistryError):
        await (await registry.submission()).round()
    rested = await registry.pool.fetchrow(
        "SELECT state, extract(epoch FROM next_attempt_at - updated_at)::float8 AS rest, detail FROM ulak.iys_records"
    )
    assert rested is not None
    assert (rested["state"], rested["rest"] == pytest.approx(rest_sec, abs=0.5)) == ("PENDING", True)
    assert rested["detail"]
    await registry.due_now()
    await (await registry.submission()).round()
    assert (await registry.record(line.id))["state"] == "ACCEPTED"


async def test_a_rest_that_was_asked_for_is_kept_for_all_calls(registry: Registry) -> None:
    await registry.says()
    await registry.fault(status=429, headers={"Retry-After": "600"})
    submission = await registry.submission()
    with pytest.raises(RegistryError):
        await submission.round()
    calls = len(await registry.told())
    await registry.due_now()
    with pytest.raises(RegistryError, match="asked us to rest"):
        await submission.round()
    assert len(await registry.told()) == calls


async def test_a_token_is_fetched_once_and_again_when_it_is_refused(registry: Registry) -> None:
    submission = await registry.submission()
    await registry.says(0)
    await submission.round()
    await registry.fault("iys-oauth", status=401)  # would be used up by a second log-in
    await registry.says(1)
    await submission.round()
    assert await registry.states() == {"ACCEPTED": 2}
    await registry.control.delete("/_sim/faults")
    await registry.fault(status=401)
    await registry.says(2)
    await submission.round()
    assert await registry.states() == {"ACCEPTED": 3}


async def test_a_wrong_password_says_which_setting(registry: Registry) -> None:
    await registry.says()
    with pytest.raises(RegistryError, match="ULAK_IYS_PASSWORD"):
        await (await registry.submission(username="nobody")).round()
    assert await registry.states() == {"PENDING": 1}


@pytest.mark.parametrize("lines", [1, 3])
async def test_told_again_after_a_reply_that_was_lost_it_is_accepted(registry: Registry, lines: int) -> None:
    """The registry has it, we do not know: the second telling is refused, and what it has is what we say."""
    for index in range(lines):
        await registry.says(index)
    await registry.fault(drop="afterAccept")
    with pytest.raises(RegistryError):
        await (await registry.submission()).round()
    assert await registry.states() == {"PENDING": lines}
    await registry.due_now()
    await (await registry.submission()).round()
    for _ in range(2):
        await registry.due_now()
        await (await registry.follow_up()).round()
    assert await registry.states() == {"ACCEPTED": lines}
    assert [await registry.standing(index) for index in range(lines)] == ["ONAY"] * lines


async def test_what_is_refused_at_first_is_not_taken_for_accepted(registry: Registry) -> None:
    """A withdrawal that the registry refuses is not accepted because of a state from somewhere else."""
    await registry.citizen(status="RET")
    await registry.citizen(status="ONAY")
    late = await registry.says(granted=False, minutes=-60)
    await (await registry.submission()).round()
    assert (await registry.record(late.id))["state"] == "REJECTED"
    await registry.due_now()
    await registry.pool.execute("UPDATE ulak.iys_records SET state = 'PENDING'")
    await (await registry.submission()).round()
    assert (await registry.record(late.id))["state"] == "REJECTED", "it says ONAY there, and RET here"


async def test_a_request_that_the_registry_forgot_is_told_again(registry: Registry) -> None:
    for index in range(2):
        await registry.says(index)
    await (await registry.submission()).round()
    await registry.pool.execute("UPDATE ulak.iys_records SET request_id = 'nowhere'")
    await registry.due_now()
    await (await registry.follow_up()).round()
    assert await registry.states() == {"PENDING": 2}


async def test_two_relays_tell_each_change_once(registry: Registry) -> None:
    for index in range(40):
        await registry.says(index)
    relays = [await registry.submission(batch=7) for _ in range(4)]

    async def tell_all(number: int) -> None:
        while await relays[number].round():
            pass

    await asyncio.gather(*(tell_all(number) for number in range(4)))
    assert (await registry.states()).keys() <= {"SUBMITTED", "ACCEPTED"}
    for index in range(40):
        assert len(await registry.told(index)) == 1


async def test_a_withdrawal_by_link_finds_the_address_that_the_consent_had(registry: Registry) -> None:
    await registry.says()
    await (await registry.submission()).round()
    by_link = await registry.says(granted=False, minutes=1, address=registry.number())
    await registry.pool.execute("UPDATE ulak.consents SET address_sealed = NULL WHERE id = $1", by_link.id)
    await (await registry.submission()).round()
    assert (await registry.record(by_link.id))["state"] == "ACCEPTED"


async def test_the_recipients_address_serves_as_well_and_without_any_it_is_said(
    registry: Registry, key_ring: KeyRing
) -> None:
    await push_recipients(registry.pool, key_ring, [RecipientProfile("ayse", phone=registry.number(0))])
    known = await registry.says(0)
    unknown = await registry.says(1)
    await registry.pool.execute("UPDATE ulak.consents SET address_sealed = NULL")
    await (await registry.submission()).round()
    assert (await registry.record(known.id))["state"] == "ACCEPTED"
    record = await registry.record(unknown.id)
    assert (record["state"], record["code"]) == ("REJECTED", "ULAK_NO_ADDRESS")
    assert "record the consent again" in record["detail"]


async def test_an_address_under_a_key_that_is_not_here_yet_waits(registry: Registry, key_ring: KeyRing) -> None:
    line = await registry.says()
    other = replace(key_ring, active="k2", keys={"k2": bytes(32)})
    telling = await registry.telling(FixedRingSource(other))
    opened, finished = telling.opened(await telling.store.claim("PENDING", limit=10, lease_sec=60))
    await telling.finish(finished)
    assert opened == []
    assert (await registry.record(line.id))["state"] == "PENDING"
    await registry.due_now()
    await (await registry.submission()).round()
    assert (await registry.record(line.id))["state"] == "ACCEPTED"


async def test_push_is_never_told(registry: Registry) -> None:
    await registry.says(channel="PUSH", address=registry.number())
    await registry.says(1, channel="INBOX", address=registry.number(1))
    assert await registry.states() == {}
