import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.simulator.mail import read_mail, undotted
from ops.simulator.providers.smtp.command import (
    Path,
    SmtpReply,
    parse_command,
    parse_path,
    refused_recipient,
    refused_sender,
    reply,
)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        pytest.param("FROM:<a@b.c>", Path("a@b.c"), id="plain"),
        pytest.param(
            "from: <a@b.c> SIZE=10 BODY=8BITMIME", Path("a@b.c", {"SIZE": "10", "BODY": "8BITMIME"}), id="args"
        ),
        pytest.param("FROM:<>", Path(""), id="null-sender"),
        pytest.param('FROM:<"a>b"@c.d>', Path('"a>b"@c.d'), id="quoted"),
        pytest.param("FROM:<@relay.example:a@b.c>", Path("a@b.c"), id="source-route"),
        pytest.param("FROM:a@b.c", 501, id="no-brackets"),
        pytest.param("TO:<a@b.c>", 501, id="other-keyword"),
    ],
)
def test_parse_path(argument: str, expected: Path | int) -> None:
    found = parse_path("FROM", argument)
    assert (found.code if isinstance(found, SmtpReply) else found) == expected


@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param(Path(""), None, id="null-sender"),
        pytest.param(Path("a@b.c", {"SIZE": "1000"}), None, id="size"),
        pytest.param(Path("a@b.c", {"SIZE": "1001"}), 552, id="too-big"),
        pytest.param(Path("a@b.c", {"SIZE": "x"}), 501, id="size-no-number"),
        pytest.param(Path("a@b.c", {"BODY": "BINARYMIME"}), 501, id="body"),
        pytest.param(Path("a@b.c", {"RET": "FULL"}), 555, id="unknown-parameter"),
        pytest.param(Path("ayşe@b.c"), 553, id="non-ascii-E2"),
        pytest.param(Path("ayşe@b.c", {"SMTPUTF8": ""}), None, id="non-ascii-with-smtputf8-E2"),
        pytest.param(Path("a" * 65 + "@b.c"), 501, id="local-part-65"),
        pytest.param(Path("a"), 501, id="no-domain"),
    ],
)
def test_refused_sender(path: Path, code: int | None) -> None:
    refused = refused_sender(path, 1000)
    assert (refused and refused.code) == code


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("a@b.c", None),
        ("Postmaster", None),
        ("", 501),
        ("unknown-a@b.c", 550),
        ("mailbox-full-a@b.c", 452),
        ("greylisted-a@b.c", 451),
    ],
)
def test_refused_recipient(address: str, code: int | None) -> None:
    refused = refused_recipient(Path(address), utf8=False)
    assert (refused and refused.code) == code


def test_replies_of_several_lines() -> None:
    assert reply(250, "host", "PIPELINING", "SIZE 1").encoded() == b"250-host\r\n250-PIPELINING\r\n250 SIZE 1\r\n"


def test_a_command_that_is_no_text() -> None:
    assert parse_command(b"MAIL FROM:<\xff@b.c>") is None


HEAD = b"From: a@b.c\r\nDate: Mon, 30 Nov 2026 20:00:00 +0300\r\nMessage-ID: <1@b.c>\r\n"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        pytest.param(HEAD + b"\r\nhi\r\n", None, id="good"),
        pytest.param(b"Subject: x\r\n\r\nhi\r\n", "From is missing", id="no-from"),
        pytest.param(HEAD + b"Subject: a\r\nSubject: b\r\n\r\nhi\r\n", "Subject appears 2 times", id="two-subjects"),
        pytest.param(HEAD + b"Bcc: x@y.z\r\n\r\nhi\r\n", "Bcc is visible to all recipients", id="bcc"),
        pytest.param(HEAD + b"\r\nhi\nthere\r\n", "a CR or LF stands alone", id="bare-lf"),
        pytest.param(HEAD + b"\r\n" + b"x" * 998 + b"\r\n", None, id="998-bytes-E7"),
        pytest.param(
            HEAD + b"\r\n" + b"x" * 999 + b"\r\n", "line 5 has 999 bytes, at most 998 are allowed", id="999-bytes-E7"
        ),
        pytest.param(
            HEAD + "\r\nşeker\r\n".encode(), "there are 8-bit bytes, but MAIL had no BODY=8BITMIME", id="8-bit"
        ),
        pytest.param(
            HEAD + b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\nno parts\r\n",
            "StartBoundaryNotFoundDefect in a part",
            id="broken-multipart",
        ),
    ],
)
def test_problems(raw: bytes, problem: str | None) -> None:
    problems = read_mail(raw, eight_bit=False, utf8=False).problems
    assert problems == [] if problem is None else problem in problems


PIECES = [
    *(
        b"\r\n",
        b"\n",
        b": ",
        b"; ",
        b"=",
        b'"',
        b"--x",
        b"\xff",
        b"\xc5\x9f",
        b"=?utf-8?q?=FF?=",
        b"<>",
        b"@",
        b",",
        b"a",
    ),
    *(b"Subject", b"To", b"Content-Type", b"multipart/mixed", b"boundary=x", b"text/plain", b"charset", b"iso-2022-kr"),
    *(b"Content-Transfer-Encoding", b"base64", b"Content-Disposition", b"attachment", b"filename*=utf-8''%FF"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join))
def test_whatever_is_sent_can_be_recorded(raw: bytes) -> None:
    orjson.dumps(read_mail(HEAD + raw, eight_bit=True, utf8=False))


@given(st.lists(st.sampled_from([b"", b".", b"..", b".a", b"a", b"a."]), max_size=8))
def test_dots_are_undone_as_rfc_5321_adds_them(lines: list[bytes]) -> None:
    wire = b"".join((b"." + line if line.startswith(b".") else line) + b"\r\n" for line in lines)
    assert undotted(wire) == b"".join(line + b"\r\n" for line in lines)
