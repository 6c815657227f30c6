"""SMTP with a relay that takes commands ahead of its replies: two mails a connection, each with its own outcome."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from email import message_from_bytes, policy
from typing import Any

import pytest

from shared.core.outcome import Accepted, Ambiguous, Outcome, TargetGone, Transient
from shared.core.ports import Prepared, Sender, SendWindow
from shared.providers.email.smtp.client import SMTP
from shared.providers.email.smtp.session import PROMPT_SEC
from tests.integration.delivery.relay import HANG_UP, SILENCE, Relay, running
from tests.integration.delivery.test_senders import SHORT, opened, prepared
from tests.integration.delivery.test_smtp import envelope, group, kinds, plain
from tests.integration.delivery.world import until

LONG = SendWindow(deadline_sec=120.0)
"""For what only an event ends, however slow the machine."""
GONE = TargetGone("rcpt 550 5.1.1")


def pipelined(**more: Any) -> Relay:
    return Relay(offers=("PIPELINING", "SIZE 1000000"), **more)


def verbs(dialogue: Sequence[str]) -> str:
    return " ".join(command.split(" ")[0] for command in dialogue)


def begun_ahead(relay: Relay) -> bool:
    """Whether a mail was begun before the one ahead had its last reply."""
    return any(command.startswith("MAIL") for command in relay.ahead)


def sending(sender: Sender, *messages: Prepared, window: SendWindow = LONG) -> asyncio.Task[Sequence[Outcome]]:
    return asyncio.create_task(_all(sender, messages, window))


async def _all(sender: Sender, messages: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
    return await sender.send(messages, window)


async def one(sender: Sender, window: SendWindow = LONG) -> Outcome:
    (outcome,) = await sender.send([prepared("EMAIL")], window)
    return outcome


async def under_way(
    relay: Relay, sender: Sender, **more: Any
) -> tuple[asyncio.Task[Sequence[Outcome]], asyncio.Task[Sequence[Outcome]], asyncio.Event]:
    """Two mails: the first with its content handed over, the second with its envelope; the event lets END be answered.

    There is one before them, which shows that the relay is prompt.
    """
    assert isinstance(await one(sender), Accepted)
    held = asyncio.Event()
    relay.held = {"END": held}
    first = sending(sender, prepared("EMAIL"))
    await until(lambda: len(relay.mails) == 2)
    second = sending(sender, prepared("EMAIL"), **more)
    await until(lambda: relay.commands.count("DATA") == 3)
    return first, second, held


# ---------------------------------------------------------------- in as few round trips as it allows


async def test_the_next_envelope_goes_out_before_the_last_reply_and_each_mail_has_its_own() -> None:
    relay = pipelined(replies={"END": ["250 ok", "250 2.0.0 queued as A1", "250 2.0.0 queued as B2"]})
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        first, second, held = await under_way(relay, sender)
        held.set()
        assert [await first, await second] == [[Accepted("A1")], [Accepted("B2")]]
    (dialogue,) = relay.dialogues
    assert verbs(dialogue) == "EHLO MAIL RCPT DATA MAIL RCPT DATA MAIL RCPT DATA QUIT"
    assert len(relay.mails) == 3


async def test_with_a_relay_that_does_not_offer_it_every_command_waits_for_its_reply() -> None:
    relay = Relay()
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        outcomes = await sender.send([prepared("EMAIL") for _ in range(5)], LONG)
        again = await asyncio.gather(*(one(sender) for _ in range(5)))
    assert kinds([*outcomes, *again]) == [Accepted] * 10
    assert relay.ahead == []
    (dialogue,) = relay.dialogues
    assert verbs(dialogue) == "EHLO" + " MAIL RCPT DATA" * 10 + " QUIT"


async def test_a_group_s_envelope_is_one_write_and_each_recipient_has_its_outcome() -> None:
    replies = {"RCPT": ["250 2.1.5 ok", "550 5.1.1 no", "451 4.7.1 later", "250 2.1.5 ok"]}
    relay = pipelined(replies=replies)
    batch = group(envelope(), *(f"{letter}@example.com" for letter in "abcd"))
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        outcomes = await sender.send(batch, LONG)
    greylisted = Transient("rcpt 451 4.7.1", not_processed=True, of_target=True)
    assert list(outcomes) == [Accepted(None), GONE, greylisted, Accepted(None)]
    assert len(relay.mails) == 1


async def test_dots_and_long_lines_arrive_identical_one_mail_after_the_other_E7() -> None:
    texts = [".\n", "..\n.\n", "ş" * 3000 + "\n.\n", "a" * 3000 + "\n", "\n.\n\n.", "ilk\n.\n..iki\n"]
    relay = pipelined()
    batch = [prepared("EMAIL", content={"subject": f"{place}", "text": text}) for place, text in enumerate(texts)]
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        assert kinds(await sender.send(batch, LONG)) == [Accepted] * len(texts)
    arrived = {}
    for mail in relay.mails:
        lines = mail.removesuffix(b".\r\n").split(b"\r\n")
        assert max(map(len, lines)) <= 998
        content = b"\r\n".join(line.removeprefix(b".") for line in lines)
        found = message_from_bytes(content, policy=policy.default)
        arrived[int(found["Subject"])] = str(found.get_content()).replace("\r\n", "\n")
    assert {place: text.rstrip("\n") for place, text in arrived.items()} == {
        place: text.rstrip("\n") for place, text in enumerate(texts)
    }


async def test_relay_that_takes_its_time_for_a_content_has_no_second_mail_waiting_behind_it() -> None:
    """Both would have to be done within the deadline of one."""
    held = asyncio.Event()
    relay = pipelined(held={"END": held})
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        both = sending(sender, prepared("EMAIL"), prepared("EMAIL"))
        await until(lambda: len(relay.mails) == 1)
        await asyncio.sleep(1.2 * PROMPT_SEC)
        held.set()
        assert kinds(await both) == [Accepted, Accepted]
        assert not begun_ahead(relay)
        await sender.send([prepared("EMAIL") for _ in range(10)], LONG)
        assert begun_ahead(relay)  # it has been prompt since


async def test_no_more_connections_than_there_may_be() -> None:
    relay = pipelined()
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=3))) as sender:
        batches = [[prepared("EMAIL") for _ in range(20)] for _ in range(4)]
        results = await asyncio.gather(*(sender.send(batch, LONG) for batch in batches))
    assert kinds([outcome for outcomes in results for outcome in outcomes]) == [Accepted] * 80
    assert len(relay.dialogues) <= 3
    assert begun_ahead(relay)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("data", "ending"),
    [
        pytest.param("354 go ahead", "554 5.5.1 no valid recipients", id="content-wanted-for-nobody"),
        pytest.param("354 go ahead", "250 2.0.0 ok", id="and-taken"),
        pytest.param("554 5.5.1 no valid recipients", "", id="content-refused"),
        pytest.param("503 5.5.1 need RCPT first", "", id="out-of-sequence"),
    ],
)
async def test_a_mail_that_nobody_may_have_is_not_sent_and_the_connection_goes_on(data: str, ending: str) -> None:
    relay = pipelined(
        replies={
            "RCPT": ["550 5.1.1 no", "250 2.1.5 ok"],
            "DATA": [data, "354 go ahead"],
            "END": [ending, "250 2.0.0 ok"] if ending else ["250 2.0.0 ok"],
        }
    )
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        refused, taken = await sender.send([prepared("EMAIL"), prepared("EMAIL")], LONG)
    assert refused == GONE
    assert isinstance(taken, Accepted), taken
    (dialogue,) = relay.dialogues
    withdrawn = "" if ending else " RSET"
    assert verbs(dialogue) == f"EHLO MAIL RCPT DATA{withdrawn} MAIL RCPT DATA QUIT"
    assert [mail == b".\r\n" for mail in relay.mails] == ([True, False] if ending else [False])


async def test_a_relay_that_does_not_forget_a_refused_mail_is_left() -> None:
    relay = pipelined(
        replies={
            "RCPT": ["550 5.1.1 no", "250 2.1.5 ok"],
            "DATA": ["503 5.5.1 no", "354 go ahead"],
            "RSET": ["500 5.5.1 what?"],
        }
    )
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        outcomes = await sender.send([prepared("EMAIL"), prepared("EMAIL")], LONG)
    assert kinds(outcomes) == [TargetGone, Accepted]
    assert [verbs(dialogue) for dialogue in relay.dialogues] == [
        "EHLO MAIL RCPT DATA RSET",
        "EHLO MAIL RCPT DATA QUIT",
    ]


# ---------------------------------------------------------------- connections that end


@pytest.mark.parametrize(
    ("verb", "outcome"),
    [
        pytest.param("MAIL", Accepted(None), id="mail-so-over-a-fresh-one"),
        pytest.param("RCPT", Transient("rcpt 421 4.3.2", not_processed=True), id="rcpt"),
        pytest.param("DATA", Transient("data 421 4.3.2", not_processed=True), id="data"),
    ],
)
async def test_421_to_an_envelope_that_went_ahead_leaves_the_mail_before_it_its_reply_E4(
    verb: str, outcome: Outcome
) -> None:
    usual = {"MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go ahead"}
    relay = pipelined(replies={verb: [usual[verb], usual[verb], "421 4.3.2 closing", usual[verb]]})
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        first, second, held = await under_way(relay, sender)
        held.set()
        assert [await first, await second] == [[Accepted(None)], [outcome]]
        assert isinstance(await one(sender), Accepted)
    assert len(relay.dialogues) == 2
    assert len(relay.mails) == (4 if isinstance(outcome, Accepted) else 3)


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        pytest.param(HANG_UP, Ambiguous("end disconnected"), id="lost"),
        pytest.param("nonsense", Ambiguous("end out of turn"), id="no-reply-at-all"),
        pytest.param("421 4.3.2 closing", Transient("end 421 4.3.2", not_processed=True), id="421"),
    ],
)
async def test_connection_that_ends_after_the_content_takes_only_that_mail_along_E4(
    ending: str, outcome: Outcome
) -> None:
    relay = pipelined(replies={"END": ["250 2.0.0 ok", ending, "250 2.0.0 ok"]})
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        first, second, held = await under_way(relay, sender)
        held.set()
        assert await first == [outcome]
        assert await second == [Accepted(None)]


async def test_envelope_that_is_half_answered_when_the_connection_ends_is_not_sent_again_here() -> None:
    relay = pipelined(replies={"RCPT": ["250 ok", "250 ok", HANG_UP, "250 ok"]})
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        first, second, held = await under_way(relay, sender)
        held.set()
        assert await first == [Accepted(None)]
        assert await second == [Transient("rcpt disconnected", not_processed=True)]
    assert len(relay.dialogues) == 1


@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "DATA"])
async def test_421_to_the_first_mail_of_a_connection_is_transient_E4(verb: str) -> None:
    relay = pipelined(replies={verb: ["421 4.3.2 closing"]})
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        assert await one(sender) == Transient(f"{verb.lower()} 421 4.3.2", not_processed=True)
    assert len(relay.dialogues) == 1
    assert relay.mails == []


async def test_connection_that_ended_while_it_was_kept_is_not_used_E4() -> None:
    relay = pipelined()
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=2))) as sender:
        await sender.send([prepared("EMAIL") for _ in range(4)], LONG)
        before = len(relay.dialogues)
        await relay.hang_up()
        outcomes = await sender.send([prepared("EMAIL") for _ in range(4)], LONG)
    assert kinds(outcomes) == [Accepted] * 4
    assert before < len(relay.dialogues) <= before + 2


# ---------------------------------------------------------------- time, and callers that go


async def test_mail_whose_time_is_up_behind_another_leaves_that_one_its_reply() -> None:
    relay = pipelined()
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        first, second, held = await under_way(relay, sender, window=SHORT)
        assert await second == [Transient("mail timed out", not_processed=True)]
        assert not first.done()
        held.set()
        assert await first == [Accepted(None)]
        assert isinstance(await one(sender), Accepted)
    assert len(relay.dialogues) == 2
    assert len(relay.mails) == 3


async def test_command_that_is_not_answered_in_its_time_ends_the_mail_not_the_one_before() -> None:
    relay = pipelined(replies={"MAIL": ["250 ok", SILENCE, "250 ok"]})
    async with (
        running(relay),
        opened(SMTP.open(plain(relay, concurrency=1, command_timeout_sec=0.3))) as sender,
    ):
        first, second = await sender.send([prepared("EMAIL"), prepared("EMAIL")], LONG)
    assert isinstance(first, Accepted), first
    assert isinstance(second, Accepted), second  # nothing of it was taken, so that a fresh connection may have it
    assert len(relay.dialogues) == 2


async def test_time_limit_of_a_command_counts_from_the_reply_before_it() -> None:
    relay = pipelined()
    async with (
        running(relay),
        opened(SMTP.open(plain(relay, concurrency=1, command_timeout_sec=0.3))) as sender,
    ):
        first, second, held = await under_way(relay, sender)
        await asyncio.sleep(0.9)  # three limits: the second waits for the first, which has its ten minutes
        assert not first.done()
        assert not second.done()
        held.set()
        assert [await first, await second] == [[Accepted(None)], [Accepted(None)]]
    assert len(relay.dialogues) == 1


async def test_cancelled_behind_another_leaves_that_one_its_reply() -> None:
    relay = pipelined()
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        first, second, held = await under_way(relay, sender)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        held.set()
        assert await first == [Accepted(None)]
        assert isinstance(await one(sender), Accepted)
    assert len(relay.dialogues) == 2
    assert len(relay.mails) == 3


async def test_cancelled_ahead_of_another_sends_that_one_over_a_fresh_connection() -> None:
    relay = pipelined()
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        first, second, held = await under_way(relay, sender)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        held.set()
        assert await second == [Accepted(None)]
    assert len(relay.dialogues) == 2


# ---------------------------------------------------------------- many at once


async def test_whatever_connections_end_each_mail_has_the_outcome_that_is_true_of_it_E4() -> None:
    """Accepted: arrived once. Ambiguous: at most once. Not processed: never, or it was refused at the end."""
    relay = pipelined(
        replies={
            "MAIL": [*["250 ok"] * 12, "421 4.3.2 closing"] * 20 + ["250 ok"],
            "RCPT": [*["250 ok"] * 6, "550 5.1.1 no", "250 ok", HANG_UP] * 20 + ["250 ok"],
            "DATA": [*["354 go ahead"] * 10, "451 4.3.0 later"] * 20 + ["354 go ahead"],
            "END": [*["250 ok"] * 8, HANG_UP, "250 ok", "452 4.3.1 full", "421 4.3.2 closing"] * 20 + ["250 ok"],
        }
    )
    batch = [prepared("EMAIL") for _ in range(300)]
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=3))) as sender:
        outcomes = [
            outcome
            for answers in await asyncio.gather(*(sender.send(batch[at : at + 30], LONG) for at in range(0, 300, 30)))
            for outcome in answers
        ]
        after = await sender.send([prepared("EMAIL") for _ in range(20)], LONG)
    assert len(after) == 20
    arrived = Counter(
        found[1].decode() for mail in relay.mails if (found := re.search(rb"X-Ulak-Reference: (\S+)", mail))
    )
    kinds_seen = Counter(map(type, outcomes))
    assert set(kinds_seen) == {Accepted, Ambiguous, TargetGone, Transient}
    assert max(arrived.values()) == 1
    for message, outcome in zip(batch, outcomes, strict=True):
        count = arrived[message.key.reference]
        if isinstance(outcome, Accepted):
            assert count == 1
        elif isinstance(outcome, TargetGone):
            assert count == 0
        elif isinstance(outcome, Transient):
            assert outcome.not_processed
            assert count == (1 if outcome.detail.startswith("end") else 0)
