import asyncio
import base64
import hashlib
import hmac
import urllib.parse
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
import pytest

from tests.integration.plain_http import plain_client
from tests.integration.simulator.simulation import Simulation, hang_up, until


@dataclass
class Receiver:
    """Takes status callbacks; refuses the first `failures` with 503."""

    failures: int = 0
    port: int = 0
    tries: int = 0
    received: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def statuses(self) -> list[str]:
        return [form["MessageStatus"] for _, form, _ in self.received]

    def url(self, reference: str) -> str:
        return f"http://127.0.0.1:{self.port}/callbacks/twilio?ref={reference}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
                exact = dict(line.split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(headers["content-length"]))
                self.tries += 1
                if self.tries <= self.failures:
                    writer.write(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")
                    continue
                form = dict(urllib.parse.parse_qsl(body.decode()))
                self.received.append((lines[0].split(" ")[1], form, exact["X-Twilio-Signature"]))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    yield receiver
    server.close()
    for writer in receiver.writers:
        await hang_up(writer.transport)


async def test_message_is_queued_and_its_receipts_are_signed(simulation: Simulation, receiver: Receiver) -> None:
    url = receiver.url("ntf-1")
    response = await simulation.send_sms(simulation.control, StatusCallback=url, Body="Şifreniz 482913")
    resource = response.json()
    assert response.status_code == 201
    assert resource["sid"].startswith("SM")
    assert (resource["status"], resource["num_segments"], resource["price"]) == ("queued", "1", None)

    async def three() -> bool:
        return len(receiver.received) == 3

    await until(three)
    assert receiver.statuses == ["queued", "sent", "delivered"]
    _, auth_token = simulation.twilio_auth
    for path, form, signature in receiver.received:
        signed = f"http://127.0.0.1:{receiver.port}{path}" + "".join(key + form[key] for key in sorted(form))
        digest = hmac.new(auth_token.encode(), signed.encode(), hashlib.sha1).digest()
        assert signature == base64.b64encode(digest).decode()
        assert form["MessageSid"] == resource["sid"]
    entry = await simulation.only(provider="twilio", reference="ntf-1")
    assert (entry["to"], entry["accepted"], entry["providerMessageId"]) == ("+905321234567", True, resource["sid"])
    fetched = await simulation.control.get(resource["uri"], auth=simulation.twilio_auth)
    assert (fetched.status_code, fetched.json()["status"]) == (200, "delivered")


@pytest.mark.parametrize(
    ("form", "status", "code"),
    [
        pytest.param({"To": "05321234567"}, 400, 21211, id="not-e164-S4"),
        pytest.param({"To": ""}, 400, 21604, id="no-to"),
        pytest.param({"From": ""}, 400, 21603, id="no-from"),
        pytest.param({"From": "+15005550007"}, 400, 21606, id="from-not-capable"),
        pytest.param({"Body": ""}, 400, 21602, id="no-body"),
        pytest.param({"Body": "a" * 1601}, 400, 21617, id="body-1601"),
        pytest.param({"To": "+15005550004"}, 400, 21610, id="unsubscribed-S7"),
        pytest.param({"StatusCallback": "ftp://x"}, 400, 21609, id="callback-not-http"),
    ],
)
async def test_refusals(simulation: Simulation, form: dict[str, str], status: int, code: int) -> None:
    response = await simulation.send_sms(simulation.control, **form)
    assert (response.status_code, response.json()["code"], response.json()["status"]) == (status, code, status)
    assert response.json()["more_info"] == f"https://www.twilio.com/docs/errors/{code}"
    assert (await simulation.only(provider="twilio"))["accepted"] is False


async def test_wrong_credentials(simulation: Simulation) -> None:
    sid, _ = simulation.twilio_auth
    url = f"/2010-04-01/Accounts/{sid}/Messages.json"
    response = await simulation.control.post(url, data={"To": "+905321234567"}, auth=(sid, "wrong"))
    assert (response.status_code, response.json()["code"]) == (401, 20003)


async def test_throttled_by_fault_S7(simulation: Simulation) -> None:
    await simulation.program("twilio", {"status": 429, "headers": {"Retry-After": "2"}}, match={"to": "+90*"})
    response = await simulation.send_sms(simulation.control)
    assert (response.status_code, response.json()["code"], response.headers["retry-after"]) == (429, 20429, "2")


@pytest.mark.parametrize("drop", ["beforeRead", "afterAccept", "midReply"])
async def test_dropped_connection(simulation: Simulation, drop: str) -> None:
    await simulation.program("twilio", {"drop": drop}, times=1)
    async with plain_client(trust_env=False) as client:
        with pytest.raises(httpx.TransportError):
            await simulation.send_sms(client)
        assert (await simulation.only(provider="twilio"))["accepted"] is (drop != "beforeRead")
        assert (await simulation.send_sms(client)).status_code == 201


async def test_receipt_is_tried_again_when_the_receiver_fails(simulation: Simulation, receiver: Receiver) -> None:
    receiver.failures = 2
    await simulation.send_sms(simulation.control, StatusCallback=receiver.url("ntf-1"))

    async def three() -> bool:
        return len(receiver.received) == 3

    await until(three)
    assert receiver.statuses == ["queued", "sent", "delivered"]
    assert receiver.tries == 5


async def test_undelivered_by_fault_carries_its_code(simulation: Simulation, receiver: Receiver) -> None:
    await simulation.program("twilio", {"receipt": {"status": "undelivered", "errorCode": 30003}}, times=1)
    await simulation.send_sms(simulation.control, StatusCallback=receiver.url("ntf-1"))

    async def three() -> bool:
        return len(receiver.received) == 3

    await until(three)
    last = receiver.received[-1][1]
    assert (last["MessageStatus"], last["ErrorCode"]) == ("undelivered", "30003")
    assert "ErrorCode" not in receiver.received[1][1]


async def test_withheld_receipt_is_sent_on_demand(simulation: Simulation, receiver: Receiver) -> None:
    await simulation.control.put("/_sim/receipts", json={"mode": "withheld", "delayMs": 0})
    await simulation.send_sms(simulation.control, StatusCallback=receiver.url("ntf-1"))

    async def nothing_planned() -> bool:
        stats = (await simulation.control.get("/_sim/stats")).json()
        return bool(stats["receipts"]["twilio"]["planned"] == 0)

    await until(nothing_planned)
    assert receiver.received == []
    response = await simulation.control.post("/_sim/callbacks/ntf-1", json={"status": "delivered"})
    assert (response.status_code, response.json()) == (200, {"receiverStatus": 204})
    assert receiver.statuses == ["delivered"]


async def test_repeated_receipts_S6(simulation: Simulation, receiver: Receiver) -> None:
    await simulation.control.put("/_sim/receipts", json={"mode": "repeated", "delayMs": 0})
    await simulation.send_sms(simulation.control, StatusCallback=receiver.url("ntf-1"))

    async def six() -> bool:
        return len(receiver.received) == 6

    await until(six)
    assert receiver.statuses == ["queued", "queued", "sent", "sent", "delivered", "delivered"]
