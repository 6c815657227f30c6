"""What an envelope is, and what the replies to it mean, whole or cut short."""

from collections.abc import Sequence

import pytest

from shared.core.outcome import Accepted, Permanent, ProviderDown, TargetGone, Transient
from shared.providers.email.mime import Mail
from shared.providers.email.smtp.dialogue import Reply
from shared.providers.email.smtp.transaction import Verdict, envelope, verdict

OK = Reply(250, "2.1.0 ok")
FORWARDED = Reply(251, "2.1.5 will forward")
GO = Reply(354, "go ahead")
GONE = Reply(550, "5.1.1 no")
LATER = Reply(451, "4.7.1 later")
CLOSING = Reply(421, "4.3.2 closing")

is_gone = TargetGone("rcpt 550 5.1.1")
greylisted = Transient("rcpt 451 4.7.1", not_processed=True, of_target=True)


def transient(detail: str) -> Transient:
    return Transient(detail, not_processed=True)


def test_envelope_is_one_command_after_the_other() -> None:
    mail = Mail("a@shop.example", ("b@example.com", "c@example.com"), b"1234567\r\n", needs_smtputf8=False)
    assert envelope(mail, announces_size=True) == [
        b"MAIL FROM:<a@shop.example> SIZE=9\r\n",
        b"RCPT TO:<b@example.com>\r\n",
        b"RCPT TO:<c@example.com>\r\n",
        b"DATA\r\n",
    ]
    utf8 = Mail("", ("ayşe@example.com",), b"\r\n", needs_smtputf8=True)
    assert envelope(utf8, announces_size=False) == [
        b"MAIL FROM:<> SMTPUTF8\r\n",
        "RCPT TO:<ayşe@example.com>\r\n".encode(),
        b"DATA\r\n",
    ]


@pytest.mark.parametrize(
    ("recipients", "replies", "expected"),
    [
        pytest.param(1, [OK, OK, GO], Verdict({}, go=True, wants_content=True), id="go"),
        pytest.param(2, [OK, OK, FORWARDED, GO], Verdict({}, go=True, wants_content=True), id="go-for-two"),
        pytest.param(
            3,
            [OK, GONE, OK, LATER, GO],
            Verdict({0: is_gone, 2: greylisted}, go=True, wants_content=True),
            id="go-for-the-one-who-was-taken",
        ),
        pytest.param(
            2,
            [OK, LATER, GONE, GO],
            Verdict({0: greylisted, 1: is_gone}, is_gone, wants_content=True),
            id="nobody-taken-and-content-wanted",
        ),
        pytest.param(
            1, [OK, GONE, Reply(554, "5.5.1 no")], Verdict({0: is_gone}, is_gone), id="nobody-taken-and-none-wanted"
        ),
        pytest.param(
            2,
            [Reply(451, "4.3.0"), Reply(503, "5.5.1"), Reply(503, "5.5.1"), Reply(503, "5.5.1")],
            Verdict({}, transient("mail 451 4.3.0")),
            id="mail-refused-so-that-no-recipient-is-blamed",
        ),
        pytest.param(
            1,
            [Reply(550, "5.7.1 who?"), OK, GO],
            Verdict({}, ProviderDown("mail 550 5.7.1", whole_account=False), wants_content=True),
            id="mail-refused-and-content-wanted",
        ),
        pytest.param(1, [OK, OK, Reply(451, "4.3.0")], Verdict({}, transient("data 451 4.3.0")), id="data-refused"),
        pytest.param(
            1, [OK, OK, Reply(554, "5.6.0")], Verdict({}, Permanent("data 554 5.6.0")), id="data-refused-for-good"
        ),
        pytest.param(
            1, [CLOSING], Verdict({}, transient("mail 421 4.3.2"), over=True, stale=True), id="closing-at-mail-E4"
        ),
        pytest.param(
            1,
            [CLOSING, CLOSING, CLOSING],
            Verdict({}, transient("mail 421 4.3.2"), over=True, stale=True),
            id="closing-at-everything-E4",
        ),
        pytest.param(
            2,
            [OK, GONE, CLOSING],
            Verdict({0: is_gone}, transient("rcpt 421 4.3.2"), over=True),
            id="closing-at-rcpt-E4",
        ),
        pytest.param(
            1, [OK, OK, CLOSING], Verdict({}, transient("data 421 4.3.2"), over=True), id="closing-at-data-E4"
        ),
        pytest.param(
            1,
            [Reply(552, "5.3.4"), CLOSING],
            Verdict({}, Permanent("mail 552 5.3.4"), over=True),
            id="closing-after-a-refusal-that-stands-E4",
        ),
    ],
)
def test_verdict_of_all_replies(recipients: int, replies: Sequence[Reply], expected: Verdict) -> None:
    assert verdict(recipients, replies, "") == expected


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        pytest.param([], Verdict({}, transient("mail disconnected"), over=True, stale=True), id="nothing"),
        pytest.param([OK], Verdict({}, transient("rcpt disconnected"), over=True), id="at-the-first"),
        pytest.param([OK, GONE], Verdict({0: is_gone}, transient("rcpt disconnected"), over=True), id="at-the-second"),
        pytest.param([OK, GONE, OK], Verdict({0: is_gone}, transient("data disconnected"), over=True), id="at-data"),
        pytest.param(
            [OK, GONE, LATER],
            Verdict({0: is_gone, 1: greylisted}, greylisted, over=True),
            id="when-nobody-was-taken",
        ),
        pytest.param([Reply(451, "4.3.0")], Verdict({}, transient("mail 451 4.3.0"), over=True), id="after-a-refusal"),
    ],
)
def test_verdict_of_what_came_before_the_connection_ended(replies: Sequence[Reply], expected: Verdict) -> None:
    assert verdict(2, replies, "disconnected") == expected


def test_verdict_while_replies_are_owed_is_open() -> None:
    """As with a relay that answers one command at a time."""
    for replies in ([OK], [OK, GONE], [OK, GONE, OK]):
        found = verdict(2, replies, "")
        assert (found.rest, found.go, found.over) == (None, False, False)


def test_everybody_has_an_outcome_in_order() -> None:
    found = verdict(3, [OK, GONE, OK, LATER, GO], "")
    assert found.outcomes(3, Accepted("1")) == [is_gone, Accepted("1"), greylisted]
