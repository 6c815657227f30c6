"""SMTP in particular: one mail to several, files, sizes, TLS, time limits; with the simulator or a scripted relay."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from shared.core.address import parse_mailbox
from shared.core.outcome import (
    Accepted,
    Ambiguous,
    FileUnread,
    NotSent,
    Outcome,
    Permanent,
    ProviderDown,
    TargetGone,
    Transient,
)
from shared.core.ports import Attachment, Envelope, Prepared, SenderProfile
from shared.core.storage import (
    InvalidRefError,
    MissingFileError,
    Scheme,
    StorageError,
    StorageUnavailableError,
    TooLargeError,
)
from shared.providers.email.smtp.client import SMTP
from shared.providers.email.smtp.settings import SmtpSettings
from tests.dkim_key import SigningKey
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.relay import HANG_UP, SILENCE, Relay, running
from tests.integration.delivery.test_senders import SHORT, WINDOW, opened, prepared
from tests.integration.delivery.world import until

GONE = TargetGone("rcpt 550 5.1.1")
GREYLISTED = Transient("rcpt 451 4.7.1", not_processed=True, of_target=True)


def envelope(*attachments: Attachment, **more: Any) -> Envelope:
    return Envelope(message_reference="eml_1", attachments=attachments, **more)


def group(shared: Envelope, *addresses: str) -> list[Prepared]:
    return [prepared("EMAIL", address=address, envelope=shared) for address in addresses]


def plain(relay: Relay, **changes: Any) -> SmtpSettings:
    values: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": relay.port,
        "security": "none",
        "from_address": "no-reply@shop.example",
    }
    return SmtpSettings(**(values | changes))


def kinds(outcomes: Sequence[Outcome]) -> list[type[Outcome]]:
    return [type(outcome) for outcome in outcomes]


# ---------------------------------------------------------------- one mail to several


async def test_who_is_refused_stops_nobody_else(simulator: Simulator) -> None:
    shared = envelope(to=(parse_mailbox("Ayşe <ayse@example.com>"),), cc=(parse_mailbox("veli@example.com"),))
    batch = group(shared, "ayse@example.com", "unknown-x@example.com", "veli@example.com", "greylisted-y@example.com")
    async with opened(SMTP.open(simulator.smtp())) as sender:
        outcomes = await sender.send(batch, WINDOW)
    assert kinds(outcomes) == [Accepted, TargetGone, Accepted, Transient]
    assert (outcomes[1], outcomes[3]) == (GONE, GREYLISTED)
    assert outcomes[0] == outcomes[2]
    (received,) = await simulator.accepted("smtp")
    content = received["content"]
    assert content["rcptTo"] == ["ayse@example.com", "veli@example.com"]
    assert content["problems"] == []
    assert content["headers"]["To"] == "Ayşe <ayse@example.com>"
    assert content["headers"]["Cc"] == "veli@example.com"
    assert content["headers"]["Message-ID"] == "<eml_1@shop.example>"


async def test_only_neighbours_of_one_envelope_are_one_mail(simulator: Simulator) -> None:
    one, two = envelope(), envelope()
    batch = [
        *group(one, "a@example.com", "b@example.com"),
        prepared("EMAIL", address="unknown-c@example.com"),
        *group(two, "d@example.com", "e@example.com"),
        prepared("EMAIL", address="f@example.com"),
    ]
    async with opened(SMTP.open(simulator.smtp())) as sender:
        outcomes = await sender.send(batch, WINDOW)
    assert kinds(outcomes) == [Accepted, Accepted, TargetGone, Accepted, Accepted, Accepted]
    received = [message["content"]["rcptTo"] for message in await simulator.accepted("smtp")]
    assert sorted(received) == [
        ["a@example.com", "b@example.com"],
        ["d@example.com", "e@example.com"],
        ["f@example.com"],
    ]


async def test_all_refused_is_no_data_and_the_connection_goes_on() -> None:
    relay = Relay(replies={"RCPT": ["550 5.1.1 no", "451 4.7.1 later", "250 2.1.5 ok"]})
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        refused = await sender.send(group(envelope(), "a@example.com", "b@example.com"), WINDOW)
        (after,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert list(refused) == [GONE, GREYLISTED]
    assert isinstance(after, Accepted)
    (dialogue,) = relay.dialogues
    assert [command.split(" ")[0] for command in dialogue] == [
        *("EHLO", "MAIL", "RCPT", "RCPT", "RSET"),
        *("MAIL", "RCPT", "DATA", "QUIT"),
    ]


@pytest.mark.parametrize(
    ("verb", "reply", "others"),
    [
        ("MAIL", "451 4.3.0 later", Transient("mail 451 4.3.0", not_processed=True)),
        ("MAIL", "553 5.7.1 not yours", ProviderDown("mail 553 5.7.1", whole_account=False)),
        ("MAIL", "552 5.3.4 too big", Permanent("mail 552 5.3.4")),
        ("DATA", "451 4.3.0 later", Transient("data 451 4.3.0", not_processed=True)),
        ("DATA", "421 4.3.2 closing", Transient("data 421 4.3.2", not_processed=True)),
        ("DATA", HANG_UP, Transient("data disconnected", not_processed=True)),
        ("END", "250 2.0.0 queued as 4Xk2", Accepted("4Xk2")),
        ("END", "554 5.6.0 spam", Permanent("end 554 5.6.0")),
        ("END", "452 4.3.1 full", Transient("end 452 4.3.1", not_processed=True)),
        ("END", "421 4.3.2 closing", Transient("end 421 4.3.2", not_processed=True)),
        ("END", HANG_UP, Ambiguous("end disconnected")),
    ],
)
async def test_what_the_mail_is_answered_is_the_outcome_of_all_who_were_taken(
    verb: str, reply: str, others: Outcome
) -> None:
    relay = Relay(replies={verb: [reply], "RCPT": ["250 2.1.5 ok", "550 5.1.1 no", "250 2.1.5 ok"]})
    batch = group(envelope(), "a@example.com", "b@example.com", "c@example.com")
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        outcomes = await sender.send(batch, WINDOW)
    assert list(outcomes) == [others, others if verb == "MAIL" else GONE, others]


@pytest.mark.parametrize(
    ("reply", "others"),
    [
        ("421 4.3.2 closing", Transient("rcpt 421 4.3.2", not_processed=True)),
        (HANG_UP, Transient("rcpt disconnected", not_processed=True)),
    ],
)
async def test_connection_lost_between_recipients_leaves_each_its_outcome(reply: str, others: Outcome) -> None:
    relay = Relay(replies={"RCPT": ["550 5.1.1 no", "250 2.1.5 ok", reply]})
    batch = group(envelope(), *(f"{letter}@example.com" for letter in "abcd"))
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        outcomes = await sender.send(batch, WINDOW)
    assert list(outcomes) == [GONE, others, others, others]
    assert relay.mails == []


async def test_profile_says_who_a_mail_is_from(simulator: Simulator) -> None:
    key = SigningKey()
    profile = SenderProfile("orders@shop.example", "Siparişler", "help@shop.example", "bounces@shop.example", key.dkim)
    async with opened(SMTP.open(simulator.smtp())) as sender:
        await sender.send(group(envelope(sender=profile), "ayse@example.com"), WINDOW)
        await sender.send([prepared("EMAIL")], WINDOW)
    signed, usual = (message["content"] for message in await simulator.accepted("smtp"))
    assert (signed["mailFrom"], usual["mailFrom"]) == ("bounces@shop.example", "no-reply@shop.example")
    assert signed["headers"]["From"] == "Siparişler <orders@shop.example>"
    assert signed["headers"]["Reply-To"] == "help@shop.example"
    assert "d=shop.example" in signed["headers"]["DKIM-Signature"]
    assert "DKIM-Signature" not in usual["headers"]
    assert signed["problems"] == usual["problems"] == []


async def test_key_that_cannot_sign_is_nothing_wrong_with_the_mail(simulator: Simulator) -> None:
    key = replace(SigningKey().dkim, private_key=b"-----BEGIN PRIVATE KEY-----")
    batch = group(envelope(sender=SenderProfile("orders@shop.example", dkim=key)), "a@example.com", "b@example.com")
    async with opened(SMTP.open(simulator.smtp())) as sender:
        outcomes = await sender.send(batch, WINDOW)
    assert kinds(outcomes) == [ProviderDown, ProviderDown]
    assert "openssl genrsa" in str(outcomes[0])
    assert await simulator.messages("smtp") == []


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"address": "a@example.com>\r\nRCPT TO:<b@example.com"}, "not an address that a mail can be sent to or from"),
        ({"content": {"subject": "s", "text": "\ud83d"}}, "its text has half of a surrogate pair"),
        ({"content": {"subject": "\ud83d", "text": "t"}}, "its text has half of a surrogate pair"),
    ],
)
async def test_what_cannot_be_a_mail_is_permanent_and_stops_no_other(
    changes: dict[str, Any], detail: str, simulator: Simulator
) -> None:
    async with opened(SMTP.open(simulator.smtp())) as sender:
        broken, sound = await sender.send([prepared("EMAIL", **changes), prepared("EMAIL")], WINDOW)
    assert broken == Permanent(f"not a mail: {detail}")
    assert isinstance(sound, Accepted)
    assert len(await simulator.messages("smtp")) == 1


# ---------------------------------------------------------------- files


def attachment(read: Callable[[float], Awaitable[bytes]], name: str = "Fatura.pdf", **more: Any) -> Attachment:
    return Attachment(name, "application/pdf", read, **more)


class Files:
    """Reads as a test says, and counts."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def of(self, name: str, data: bytes) -> Attachment:
        async def read(_timeout_sec: float) -> bytes:
            self.reads.append(name)
            return data

        return attachment(read, name)


async def test_files_are_read_once_for_all_recipients_and_arrive_identical(simulator: Simulator) -> None:
    files = Files()
    contents = {"Sipariş Faturası.pdf": b"%PDF" + bytes(range(256)) * 8, "فاتورة.pdf": b"\r\n.\r\n" * 50}
    shared = envelope(*(files.of(name, data) for name, data in contents.items()))
    async with opened(SMTP.open(simulator.smtp())) as sender:
        outcomes = await sender.send(group(shared, "a@example.com", "b@example.com", "c@example.com"), WINDOW)
    assert kinds(outcomes) == [Accepted] * 3
    assert files.reads == list(contents)
    (received,) = await simulator.accepted("smtp")
    assert {entry["name"]: entry["sha256"] for entry in received["content"]["attachments"]} == {
        name: hashlib.sha256(data).hexdigest() for name, data in contents.items()
    }
    assert received["content"]["problems"] == []


async def test_large_file_arrives_identical(simulator: Simulator) -> None:
    data = bytes(range(256)) * 20_000
    async with opened(SMTP.open(simulator.smtp())) as sender:
        (outcome,) = await sender.send(group(envelope(Files().of("a.bin", data)), "a@example.com"), WINDOW)
    assert isinstance(outcome, Accepted), outcome
    (received,) = await simulator.accepted("smtp")
    (entry,) = received["content"]["attachments"]
    assert entry["sha256"] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            MissingFileError("x"),
            FileUnread("attachment 2 of 3 is missing: a file must stay until its mail is sent", permanent=True),
        ),
        (
            TooLargeError(Scheme.S3, 10),
            FileUnread("attachment 2 of 3: the file of a s3: reference is larger than 10 bytes", permanent=True),
        ),
        (InvalidRefError("no reference"), FileUnread("attachment 2 of 3: no reference", permanent=True)),
        (StorageUnavailableError("S3 is away"), FileUnread("attachment 2 of 3: S3 is away", permanent=False)),
    ],
)
async def test_file_that_cannot_be_had_keeps_the_mail_from_the_wire(
    error: StorageError, expected: Outcome, simulator: Simulator
) -> None:
    async def fail(_timeout_sec: float) -> bytes:
        raise error

    files = Files()
    shared = envelope(files.of("1.pdf", b"1"), attachment(fail), files.of("3.pdf", b"3"))
    async with opened(SMTP.open(simulator.smtp())) as sender:
        outcomes = await sender.send(group(shared, "a@example.com", "b@example.com"), WINDOW)
    assert list(outcomes) == [expected, expected]
    assert files.reads == ["1.pdf"]
    assert await simulator.messages("smtp") == []


async def test_slow_storage_leaves_time_within_the_deadline(simulator: Simulator) -> None:
    given: list[float] = []

    async def hang(timeout_sec: float) -> bytes:
        given.append(timeout_sec)
        await asyncio.Event().wait()
        return b""

    async with opened(SMTP.open(simulator.smtp())) as sender:
        started = time.monotonic()
        (outcome,) = await sender.send(group(envelope(attachment(hang)), "a@example.com"), SHORT)
        took = time.monotonic() - started
    assert outcome == FileUnread("attachment 1 of 1 was not read in time", permanent=False)
    assert given[0] <= SHORT.deadline_sec / 2 < SHORT.deadline_sec
    assert took < SHORT.deadline_sec + 0.5


# ---------------------------------------------------------------- what a relay offers


async def test_mail_above_the_relays_size_is_not_begun() -> None:
    relay = Relay(offers=("SIZE 2000",))
    batch = [
        prepared("EMAIL", content={"subject": "s", "text": "a" * 3000 + "\n"}),
        prepared("EMAIL", content={"subject": "s", "text": "short\n"}),
    ]
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        large, small = await sender.send(batch, WINDOW)
    assert isinstance(large, Permanent)
    assert "the relay takes 2000" in large.detail
    assert isinstance(small, Accepted)
    (mail_command,) = [command for command in relay.commands if command.startswith("MAIL")]
    sent = relay.mails[0].removesuffix(b".\r\n")
    assert mail_command.endswith(f" SIZE={len(sent)}")


async def test_relay_without_smtputf8_takes_the_mail_for_all_others_E2() -> None:
    relay = Relay()
    shared = envelope(to=(parse_mailbox("Ayşe <ayşe@example.com>"), parse_mailbox("veli@example.com")))
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        outcomes = await sender.send(group(shared, "ayşe@example.com", "veli@example.com"), WINDOW)
        (alone,) = await sender.send([prepared("EMAIL", address="ayşe@example.com")], WINDOW)
    refused = Permanent("the relay takes no non-ASCII local part (SMTPUTF8)", dead_letter=False)
    assert list(outcomes) == [refused, Accepted(None)]
    assert alone == refused
    (mail,) = relay.mails
    assert mail.isascii()
    assert [command for command in relay.commands if command.startswith("RCPT")] == ["RCPT TO:<veli@example.com>"]


async def test_relay_that_knows_no_ehlo_takes_mail() -> None:
    relay = Relay(replies={"EHLO": ["502 5.5.1 what?"]})
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(outcome, Accepted), outcome
    assert relay.commands[:2] == ["EHLO localhost", "HELO localhost"]


# ---------------------------------------------------------------- TLS


async def test_opportunistic_tls_is_used_whatever_the_certificate(simulator: Simulator) -> None:
    async with opened(SMTP.open(simulator.smtp(security="opportunistic", ca_file=None))) as sender:
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(outcome, Accepted), outcome
    (received,) = await simulator.accepted("smtp")
    assert received["content"]["tls"] is True


async def test_required_tls_is_used(simulator: Simulator) -> None:
    async with opened(SMTP.open(simulator.smtp(security="starttls"))) as sender:
        await sender.send([prepared("EMAIL")], WINDOW)
    (received,) = await simulator.accepted("smtp")
    assert received["content"]["tls"] is True


async def test_no_tls_is_used_where_none_is_wanted(simulator: Simulator) -> None:
    async with opened(SMTP.open(simulator.smtp(security="none"))) as sender:
        await sender.send([prepared("EMAIL")], WINDOW)
    (received,) = await simulator.accepted("smtp")
    assert received["content"]["tls"] is False


@pytest.mark.parametrize(
    ("offers", "replies"),
    [
        pytest.param((), {}, id="not-offered"),
        pytest.param(("STARTTLS",), {}, id="handshake-fails"),
        pytest.param(("STARTTLS",), {"STARTTLS": ["454 4.7.0 not now"]}, id="refused"),
    ],
)
async def test_opportunistic_tls_is_done_without_and_required_tls_is_not(
    offers: tuple[str, ...], replies: dict[str, Sequence[str]]
) -> None:
    relay = Relay(offers=offers, replies=replies)
    async with running(relay):
        async with opened(SMTP.open(plain(relay, security="opportunistic"))) as sender:
            (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
        assert isinstance(outcome, Accepted), outcome
        sent = len(relay.mails)
        async with opened(SMTP.open(plain(relay, security="starttls"))) as sender:
            (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(outcome, ProviderDown if not offers else Transient), outcome
    assert len(relay.mails) == sent == 1


async def test_login_that_the_relay_does_not_offer_is_the_providers_trouble(simulator: Simulator) -> None:
    relay = Relay()
    login = {"username": "u", "password": SecretStr("p")}
    async with running(relay), opened(SMTP.open(plain(relay).model_copy(update=login))) as sender:
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(outcome, ProviderDown), outcome
    assert "ULAK_SMTP_USERNAME" in outcome.detail
    assert relay.mails == []


# ---------------------------------------------------------------- time, and connections that end


@pytest.mark.parametrize("phase", ["greeting", "mail", "rcpt", "data"])
async def test_each_phase_has_its_limit(phase: str, simulator: Simulator) -> None:
    await simulator.fault("smtp", times=1, delayMs=20_000, smtp={"phase": phase})
    settings = simulator.smtp(connect_timeout_sec=0.2, command_timeout_sec=0.2)
    async with opened(SMTP.open(settings)) as sender:
        started = time.monotonic()
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
        took = time.monotonic() - started
    assert isinstance(outcome, Transient), outcome
    assert outcome.not_processed
    assert took < 3


async def test_end_of_the_content_waits_longer_than_a_command(simulator: Simulator) -> None:
    await simulator.fault("smtp", times=1, delayMs=600, smtp={"phase": "dataEnd"})
    async with opened(SMTP.open(simulator.smtp(command_timeout_sec=0.3))) as sender:
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(outcome, Accepted), outcome


async def test_no_connection_within_the_deadline_is_not_sent(simulator: Simulator) -> None:
    await simulator.fault("smtp", times=1, delayMs=20_000, smtp={"phase": "greeting"})
    async with opened(SMTP.open(simulator.smtp())) as sender:
        outcomes = await sender.send(group(envelope(), "a@example.com", "b@example.com"), SHORT)
    assert kinds(outcomes) == [NotSent, NotSent]


@pytest.mark.parametrize("phase", ["rcpt", "data", "dataEnd"])
async def test_421_to_a_group_is_transient_for_each_and_the_next_mail_goes_out_E4(
    phase: str, simulator: Simulator
) -> None:
    async with opened(SMTP.open(simulator.smtp())) as sender:
        await sender.send([prepared("EMAIL")], WINDOW)
        await simulator.fault("smtp", times=1, smtp={"phase": phase, "code": 421, "text": "4.3.2 closing"})
        outcomes = await sender.send(group(envelope(), "a@example.com", "b@example.com"), WINDOW)
        assert kinds(outcomes) == [Transient, Transient]
        (after,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(after, Accepted), after


async def test_connection_that_ended_while_it_was_kept_is_not_used_E4() -> None:
    relay = Relay()
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        await sender.send([prepared("EMAIL")], WINDOW)
        await relay.hang_up()
        (outcome,) = await sender.send(group(envelope(), "a@example.com"), WINDOW)
    assert isinstance(outcome, Accepted), outcome
    assert len(relay.dialogues) == 2
    assert len(relay.mails) == 2


async def test_421_at_mail_on_a_kept_connection_is_repeated_on_a_fresh_one_E4() -> None:
    relay = Relay(replies={"MAIL": ["250 2.1.0 ok", "421 4.4.2 idle too long", "250 2.1.0 ok"]})
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        await sender.send([prepared("EMAIL")], WINDOW)
        outcomes = await sender.send(group(envelope(), "a@example.com", "b@example.com"), WINDOW)
    assert kinds(outcomes) == [Accepted, Accepted]
    assert len(relay.dialogues) == 2


async def test_a_relay_that_answers_421_to_every_mail_is_not_asked_without_end_E4() -> None:
    relay = Relay(replies={"MAIL": ["421 4.3.2 closing"]})
    async with running(relay), opened(SMTP.open(plain(relay))) as sender:
        (first,) = await sender.send([prepared("EMAIL")], WINDOW)
        (second,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert first == second == Transient("mail 421 4.3.2", not_processed=True)
    assert len(relay.dialogues) == 2


async def test_greylisting_is_one_attempt_each_time_and_then_delivered_E6(simulator: Simulator) -> None:
    await simulator.fault("smtp", times=2, smtp={"phase": "rcpt", "code": 451, "text": "4.7.1 greylisted"})
    message = group(envelope(), "ayse@example.com")
    async with opened(SMTP.open(simulator.smtp())) as sender:
        outcomes = [(await sender.send(message, WINDOW))[0] for _ in range(3)]
    assert outcomes[:2] == [GREYLISTED, GREYLISTED]
    assert isinstance(outcomes[2], Accepted)
    assert len(await simulator.messages("smtp")) == 3


async def test_cancelled_group_leaves_no_connection_in_the_middle_of_a_mail() -> None:
    relay = Relay(replies={"DATA": [SILENCE, "354 go ahead"]})
    async with running(relay), opened(SMTP.open(plain(relay, concurrency=1))) as sender:
        sending = asyncio.create_task(sender.send(group(envelope(), "a@example.com", "b@example.com"), WINDOW))
        await until(lambda: "DATA" in relay.commands)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(outcome, Accepted), outcome
    assert len(relay.dialogues) == 2
