import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiosmtplib
import pytest

from ops.simulator.assembly import open_simulator
from ops.simulator.settings import SimulatorSettings
from tests.integration.plain_http import plain_client
from tests.integration.simulator.simulation import Simulation, hang_up

Connect = Callable[..., AbstractAsyncContextManager[aiosmtplib.SMTP]]


@pytest.fixture
def connect(simulation: Simulation) -> Connect:
    @asynccontextmanager
    async def opened(*, start_tls: bool = True) -> AsyncIterator[aiosmtplib.SMTP]:
        host, port = simulation.smtp
        client = aiosmtplib.SMTP(hostname=host, port=port, start_tls=start_tls, tls_context=simulation.tls, timeout=10)
        await client.connect()
        try:
            yield client
        finally:
            await hang_up(client.transport)

    return opened


def mail(reference: str = "ntf-1", **headers: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Mağaza <shop@example.com>"
    message["To"] = "ayse@example.com"
    message["Subject"] = "Siparişiniz kargoda: order-98213"
    message["Date"] = "Mon, 30 Nov 2026 20:00:00 +0300"
    message["Message-ID"] = f"<{reference}@example.com>"
    message["X-Ulak-Reference"] = reference
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content("Merhaba Ayşe,\n.\nKargo A ile yola çıktı.\n")
    message.add_alternative("<p>Merhaba Ayşe</p>", subtype="html")
    message.add_attachment(b"%PDF-1.7", maintype="application", subtype="pdf", filename="fatura ağustos.pdf")
    return message


async def test_mail_arrives_as_it_was_written_E7(simulation: Simulation, connect: Connect) -> None:
    async with connect() as client:
        _, answer = await client.send_message(mail())
    entry = await simulation.only(provider="smtp", to="ayse@example.com")
    content = entry["content"]
    assert answer.endswith(entry["providerMessageId"])
    assert (entry["reference"], entry["accepted"], entry["status"]) == ("ntf-1", True, 250)
    assert content["mailFrom"] == "shop@example.com"
    assert content["rcptTo"] == ["ayse@example.com"]
    assert content["subject"] == "Siparişiniz kargoda: order-98213"
    assert content["headers"]["From"] == "Mağaza <shop@example.com>"
    assert content["text"] == "Merhaba Ayşe,\n.\nKargo A ile yola çıktı.\n"
    assert content["html"] == "<p>Merhaba Ayşe</p>\n"
    assert [(part["name"], part["contentType"], part["bytes"]) for part in content["attachments"]] == [
        ("fatura ağustos.pdf", "application/pdf", 8)
    ]
    assert content["tls"] is True
    assert content["problems"] == []


async def test_one_entry_per_mail_found_by_any_recipient(simulation: Simulation, connect: Connect) -> None:
    async with connect() as client:
        errors, _ = await client.sendmail(
            "shop@example.com", ["a@example.com", "unknown-b@example.com", "c@example.com"], bytes(mail())
        )
    assert {address: reply[0] for address, reply in errors.items()} == {"unknown-b@example.com": 550}
    entry = await simulation.only(provider="smtp", to="c@example.com")
    assert entry["to"] == "a@example.com"
    assert entry["content"]["rcptTo"] == ["a@example.com", "c@example.com"]
    assert entry["content"]["rcptRefused"] == [{"to": "unknown-b@example.com", "code": 550}]


async def test_refused_recipient_alone_is_an_entry_of_its_own(simulation: Simulation, connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(aiosmtplib.SMTPRecipientsRefused):
            await client.sendmail("shop@example.com", ["unknown-a@example.com"], bytes(mail()))
    entry = await simulation.only(provider="smtp", to="unknown-a@example.com")
    assert (entry["accepted"], entry["status"]) == (False, 550)


async def _lines(reader: asyncio.StreamReader) -> list[str]:
    """One reply, all its lines."""
    lines = []
    while True:
        line = (await reader.readline()).decode().rstrip("\r\n")
        lines.append(line)
        if line[3:4] != "-":
            return lines


async def test_pipelined_groups_are_answered_in_order_rfc2920(simulation: Simulation) -> None:
    """The body's end, the next MAIL, RCPT and DATA in one write: the way of the bulk lane."""
    reader, writer = await asyncio.open_connection(*simulation.smtp)
    await _lines(reader)
    writer.write(b"EHLO client.example\r\n")
    assert "250-PIPELINING" in await _lines(reader)
    envelope = b"MAIL FROM:<shop@example.com>\r\nRCPT TO:<%d@example.com>\r\nDATA\r\n"
    body = b"From: a@example.com\r\nX-Ulak-Reference: r%d\r\n\r\n..dot\r\n.\r\n"
    writer.write(envelope % 1)
    assert [(await _lines(reader))[-1][:3] for _ in range(3)] == ["250", "250", "354"]
    writer.write(body % 1 + envelope % 2)
    assert [(await _lines(reader))[-1][:3] for _ in range(4)] == ["250", "250", "250", "354"]
    writer.write(body % 2 + b"QUIT\r\n")
    assert [(await _lines(reader))[-1][:3] for _ in range(2)] == ["250", "221"]
    assert await reader.read() == b""
    await hang_up(writer.transport)
    entries = await simulation.messages(provider="smtp")
    assert [(entry["reference"], entry["to"]) for entry in entries] == [
        ("r1", "1@example.com"),
        ("r2", "2@example.com"),
    ]
    assert entries[0]["content"]["text"] == ".dot\n"
    assert entries[0]["content"]["problems"] == ["Date is missing", "Message-ID is missing"]


async def test_what_comes_in_the_clear_after_starttls_is_thrown_away(simulation: Simulation) -> None:
    """RFC 3207 section 4.2: a command put behind STARTTLS by someone in the middle must not run."""
    reader, writer = await asyncio.open_connection(*simulation.smtp)
    await _lines(reader)
    writer.write(b"EHLO client.example\r\n")
    await _lines(reader)
    writer.write(b"STARTTLS\r\nMAIL FROM:<evil@example.com>\r\n")
    assert (await _lines(reader))[0].startswith("220")
    context = ssl.create_default_context(cafile=simulation.endpoints["caFile"])
    await writer.start_tls(context, server_hostname="localhost")
    writer.write(b"EHLO client.example\r\nRCPT TO:<a@example.com>\r\n")
    assert "STARTTLS" not in " ".join(await _lines(reader))
    assert (await _lines(reader))[0].startswith("503")
    await hang_up(writer.transport)


@pytest.mark.parametrize(
    ("phase", "code", "error"),
    [
        pytest.param("mail", 421, aiosmtplib.SMTPException, id="mail-421-E4"),
        pytest.param("mail", 451, aiosmtplib.SMTPSenderRefused, id="mail-451"),
        pytest.param("rcpt", 421, aiosmtplib.SMTPException, id="rcpt-421-E4"),
        pytest.param("rcpt", 451, aiosmtplib.SMTPRecipientsRefused, id="rcpt-greylisted-E6"),
        pytest.param("data", 421, aiosmtplib.SMTPException, id="data-421-E4"),
        pytest.param("data", 451, aiosmtplib.SMTPDataError, id="data-451"),
        pytest.param("dataEnd", 554, aiosmtplib.SMTPDataError, id="content-refused"),
    ],
)
async def test_refusal_at_each_phase_is_recorded_once(
    simulation: Simulation, connect: Connect, phase: str, code: int, error: type[Exception]
) -> None:
    await simulation.program("smtp", {"smtp": {"phase": phase, "code": code, "text": "4.7.0 Not now"}}, times=1)
    async with connect() as client:
        with pytest.raises(error):
            await client.send_message(mail())
    async with connect() as client:
        await client.send_message(mail())
    refused, taken = await simulation.messages(provider="smtp")
    assert (refused["accepted"], refused["status"], refused["error"]) == (False, code, f"{phase}: {code}")
    assert taken["accepted"] is True


@pytest.mark.parametrize("phase", ["greeting", "ehlo"])
async def test_refusal_at_the_door(simulation: Simulation, connect: Connect, phase: str) -> None:
    await simulation.program("smtp", {"smtp": {"phase": phase, "code": 554}}, times=1)
    with pytest.raises(aiosmtplib.SMTPException):
        async with connect() as client:
            await client.ehlo()
    entry = await simulation.only(provider="smtp")
    assert (entry["accepted"], entry["status"], entry["to"]) == (False, 554, None)


@pytest.mark.parametrize(
    ("drop", "accepted", "status"),
    [
        pytest.param("beforeRead", False, None, id="before-read"),
        pytest.param("afterAccept", True, None, id="after-accept"),
        pytest.param("midReply", True, 250, id="mid-reply"),
    ],
)
async def test_cut_after_the_final_dot(
    simulation: Simulation, connect: Connect, drop: str, accepted: bool, status: int | None
) -> None:
    await simulation.program("smtp", {"drop": drop}, match={"reference": "ntf-1"}, times=1)
    async with connect() as client:
        with pytest.raises((aiosmtplib.SMTPException, ConnectionError)):
            await client.send_message(mail())
    entry = await simulation.only(provider="smtp")
    assert (entry["accepted"], entry["status"]) == (accepted, status)


async def test_a_server_that_never_answers_its_greeting(simulation: Simulation) -> None:
    await simulation.program("smtp", {"delayMs": 3_600_000, "smtp": {"phase": "greeting"}})
    host, port = simulation.smtp
    with pytest.raises(aiosmtplib.SMTPTimeoutError):
        await aiosmtplib.SMTP(hostname=host, port=port, timeout=0.3).connect()


async def test_non_ascii_address_needs_smtputf8_E2(simulation: Simulation, connect: Connect) -> None:
    async with connect() as client:
        await client.ehlo()
        assert (await client.execute_command(b"MAIL", "FROM:<ayşe@example.com>".encode())).code == 553
        assert (await client.execute_command(b"MAIL", "FROM:<ayşe@example.com>".encode(), b"SMTPUTF8")).code == 250


@pytest.mark.parametrize(
    ("user", "password", "code"), [("shop", "right", 235), ("shop", "wrong", 535), ("other", "right", 535)]
)
@pytest.mark.parametrize("mechanism", ["plain", "login"])
async def test_authentication(state_dir: Path, mechanism: str, user: str, password: str, code: int) -> None:
    settings = SimulatorSettings(
        state_dir=state_dir, smtp_user="shop", smtp_password="right", smtp_require_auth=True, smtp_require_tls=True
    )
    async with (
        open_simulator(settings) as endpoints,
        plain_client(base_url=str(endpoints["url"])) as control,
    ):
        simulation = Simulation(dict[str, Any](endpoints), control)
        host, port = simulation.smtp
        client = aiosmtplib.SMTP(hostname=host, port=port, start_tls=False, timeout=10)
        await client.connect()
        await client.ehlo()
        assert (await client.execute_command(b"MAIL", b"FROM:<a@example.com>")).code == 530
        await client.starttls(tls_context=simulation.tls)
        await client.ehlo()
        assert (await client.execute_command(b"MAIL", b"FROM:<a@example.com>")).code == 530
        attempt = client.auth_plain if mechanism == "plain" else client.auth_login
        if code == 235:
            assert (await attempt(user, password)).code == code
            assert (await client.execute_command(b"MAIL", b"FROM:<a@example.com>")).code == 250
        else:
            with pytest.raises(aiosmtplib.SMTPAuthenticationError) as refused:
                await attempt(user, password)
            assert refused.value.code == code
        await hang_up(client.transport)
