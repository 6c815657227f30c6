"""What each answer of the provider does to its row: to one recipient, and to several of one mail."""

from datetime import UTC, datetime

import pytest

from shared.core.identifier import public_id
from shared.core.outcome import (
    Accepted,
    Ambiguous,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    TargetGone,
    Throttled,
    Transient,
)
from shared.runtime import metrics
from tests.integration.relay.email.world import AYSE, BORA, CEM, World, counted

pytestmark = pytest.mark.postgres

GONE = TargetGone("rcpt 550 5.1.1")
REFUSED = Permanent("rcpt 550", dead_letter=False)
BUSY = Transient("end 451 4.3.0", not_processed=True)


# ---------------------------------------------------------------- one recipient


async def test_accepted_mail_is_sent_and_leaves_nothing_but_its_record(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"], row["outcomes"]) == ("SENT", 1, {"0": "SENT"})
    assert (row["provider"], row["provider_message_id"]) == ("smtp", "queue-1")
    assert row["sent_at"] is not None
    assert row["error_message"] is None
    assert row["claim_id"] is row["locked_at"] is row["lease_until"] is row["parameters"] is None
    [mail] = world.server.mails
    assert (mail.recipients, mail.subject) == ((AYSE,), "Siparişiniz 98213")
    assert mail.reference == public_id("eml", row_id)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(Permanent("end 554 5.7.1"), "permanent: end 554 5.7.1", id="permanent"),
        pytest.param(GONE, "target_gone: rcpt 550 5.1.1", id="target-gone"),
    ],
)
async def test_a_permanent_reply_ends_at_once_and_clears_the_parameters(
    world: World, answer: Outcome, error: str
) -> None:
    row_id = await world.enqueue(AYSE)
    world.server.answers[AYSE] = [answer]
    await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"], row["error_message"]) == ("FAILED", 1, error)
    assert row["parameters"] is None
    assert row["sent_at"] is None


@pytest.mark.parametrize("answer", [BUSY, Ambiguous("end timed out")], ids=["transient", "ambiguous-is-at-least-once"])
async def test_a_transient_reply_waits_and_goes_out_under_the_same_message_id(world: World, answer: Outcome) -> None:
    row_id = await world.enqueue(AYSE)
    world.server.answers[AYSE] = [answer]
    before = datetime.now(UTC)
    await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"]) == ("PENDING", 1)
    assert 10 <= (row["next_attempt_at"] - before).total_seconds() < 15
    assert row["parameters"] is not None
    await world.due_now(row_id)
    await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"], row["error_message"]) == ("SENT", 2, None)
    assert len({mail.reference for mail in world.server.mails}) == 1 < len(world.server.mails)


@pytest.mark.parametrize(("profile", "attempts"), [("doubling", 8), ("steps", 5)])
async def test_attempts_end_and_the_parameters_stay_for_a_requeue(world: World, profile: str, attempts: int) -> None:
    row_id = await world.enqueue(AYSE)
    world.server.answers[AYSE] = [BUSY] * attempts
    for _ in range(attempts):
        await world.due_now(row_id)
        await world.drain(backoff=profile)

    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"]) == ("FAILED", attempts)
    assert row["error_message"] == "exhausted: end 451 4.3.0"
    assert len(world.server.mails) == attempts

    await world.update(row_id, status="PENDING", attempt_count=0)  # what requeue does
    await world.drain(backoff=profile)
    assert (await world.row(row_id))["status"] == "SENT"


@pytest.mark.parametrize(
    ("answer", "least_sec", "most_sec"),
    [
        pytest.param(Throttled(Scope.DOMAIN, "end 421 4.7.28"), 10, 10, id="throttled-shortest-delay-while-young"),
        pytest.param(Throttled(Scope.DOMAIN, "end 421", retry_after_sec=90), 90, 90, id="retry-after-is-kept"),
        pytest.param(ProviderDown("auth 535"), 10, 10, id="provider-down"),
    ],
)
async def test_what_is_not_the_mails_fault_counts_as_no_attempt(
    world: World, answer: Outcome, least_sec: float, most_sec: float
) -> None:
    row_id = await world.enqueue(AYSE)
    world.server.answers[AYSE] = [answer]
    before = datetime.now(UTC)
    await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"]) == ("PENDING", 0)
    assert least_sec <= (row["next_attempt_at"] - before).total_seconds() < most_sec + 5


async def test_a_provider_that_is_down_is_not_asked_for_the_whole_queue(world: World) -> None:
    addresses = [f"user{number}@example.com" for number in range(100)]
    for address in addresses:
        await world.enqueue(address)
        world.server.answers[address] = [ProviderDown("auth 535")]
    assert await world.dispatcher().round() is False
    assert len(world.server.mails) <= 3 * 20


async def test_ends_are_counted_by_status_and_reason(world: World) -> None:
    sent = counted(metrics.EMAIL_ENDED, "SENT", "")
    failed = counted(metrics.EMAIL_ENDED, "FAILED", "permanent")
    await world.enqueue(AYSE)
    await world.enqueue(BORA)
    world.server.answers[BORA] = [REFUSED]
    await world.drain()
    assert counted(metrics.EMAIL_ENDED, "SENT", "") == sent + 1
    assert counted(metrics.EMAIL_ENDED, "FAILED", "permanent") == failed + 1


async def test_a_mail_that_is_accepted_without_an_id_is_sent_all_the_same(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    world.server.answers[AYSE] = [Accepted(None)]
    await world.drain()
    row = await world.row(row_id)
    assert (row["status"], row["provider_message_id"]) == ("SENT", None)


# ---------------------------------------------------------------- several recipients


async def test_one_mail_for_all_recipients_with_an_outcome_each(world: World) -> None:
    row_id = await world.enqueue(f"Ayşe <{AYSE}>", cc=[BORA], bcc=[CEM])
    await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["outcomes"]) == ("SENT", {"0": "SENT", "1": "SENT", "2": "SENT"})
    [mail] = world.server.mails
    assert mail.recipients == (AYSE, BORA, CEM)
    assert mail.to == (AYSE,)


async def test_only_those_who_have_no_outcome_are_sent_to_again(world: World) -> None:
    row_id = await world.enqueue(AYSE, BORA, CEM)
    world.server.answers |= {BORA: [GONE], CEM: [BUSY]}
    await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"]) == ("PENDING", 1)
    assert row["outcomes"] == {"0": "SENT", "1": "FAILED target_gone: rcpt 550 5.1.1"}
    await world.due_now(row_id)
    await world.drain()

    row = await world.row(row_id)
    assert [mail.recipients for mail in world.server.mails] == [(AYSE, BORA, CEM), (CEM,)]
    assert [mail.to for mail in world.server.mails] == [(AYSE, BORA, CEM)] * 2, "everybody is shown to everybody"
    assert row["status"] == "FAILED"
    assert row["outcomes"] == {"0": "SENT", "1": "FAILED target_gone: rcpt 550 5.1.1", "2": "SENT"}
    assert row["error_message"] == "target_gone: 1 of 3 recipients refused: rcpt 550 5.1.1"
    assert row["parameters"] is None


async def test_exhausted_for_some_keeps_the_parameters_for_them(world: World) -> None:
    row_id = await world.enqueue(AYSE, BORA)
    world.server.answers[BORA] = [BUSY] * 8
    for _ in range(8):
        await world.due_now(row_id)
        await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["outcomes"]) == ("FAILED", {"0": "SENT"})
    assert row["error_message"] == "exhausted: 1 of 2 recipients not reached: end 451 4.3.0"
    assert row["parameters"] is not None
    assert [mail.recipients for mail in world.server.mails] == [(AYSE, BORA), *[(BORA,)] * 7]


async def test_one_throttled_recipient_costs_the_mail_no_attempt(world: World) -> None:
    row_id = await world.enqueue(AYSE, BORA)
    world.server.answers[BORA] = [Throttled(Scope.TARGET, "rcpt 452 4.2.1", retry_after_sec=60)]
    await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"], row["outcomes"]) == ("PENDING", 0, {"0": "SENT"})
