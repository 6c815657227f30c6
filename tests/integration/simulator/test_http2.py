"""Frames that no HTTP client shows, seen by a bare h2 connection."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, RemoteSettingsChanged, ResponseReceived, StreamEnded
from h2.settings import SettingCodes
from hyperframe.frame import Frame, GoAwayFrame

from tests.integration.simulator.simulation import TOKEN, TOPIC, Simulation, hang_up, until


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    h2: H2Connection = field(default_factory=lambda: H2Connection(H2Configuration(header_encoding="utf-8")))
    events: list[Event] = field(default_factory=list)
    goaways: list[GoAwayFrame] = field(default_factory=list)
    closed: bool = False

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def push(self, jwt_text: str, message_id: str, *more: tuple[str | bytes, str | bytes]) -> int:
        stream_id = self.h2.get_next_available_stream_id()
        self.h2.send_headers(
            stream_id,
            [
                (":method", "POST"),
                (":scheme", "https"),
                (":authority", "localhost"),
                (":path", f"/3/device/{TOKEN}"),
                ("authorization", f"bearer {jwt_text}"),
                ("apns-topic", TOPIC),
                ("apns-id", message_id),
                *more,
            ],
        )
        self.h2.send_data(stream_id, b'{"aps":{}}', end_stream=True)
        self.flush()
        return stream_id

    async def read(self) -> None:
        """Gather events until the server closes."""
        try:
            while True:
                header = await self.reader.readexactly(9)
                frame, length = Frame.parse_frame_header(memoryview(header))
                body = await self.reader.readexactly(length)
                if isinstance(frame, GoAwayFrame):
                    # h2 would take no frame after it, though the streams below the named one go on (RFC 9113 6.8).
                    frame.parse_body(memoryview(body))
                    self.goaways.append(frame)
                    continue
                self.events += self.h2.receive_data(header + body)
                self.flush()
        except asyncio.IncompleteReadError:
            self.closed = True

    def answered(self) -> set[int]:
        return {event.stream_id for event in self.events if isinstance(event, ResponseReceived)}


@asynccontextmanager
async def connected(simulation: Simulation, *, initial_window: int | None = None) -> AsyncIterator[Client]:
    context = ssl.create_default_context(cafile=simulation.endpoints["caFile"])
    context.set_alpn_protocols(["h2"])
    host, _, port = str(simulation.endpoints["apns"]).removeprefix("https://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    client = Client(reader, writer)
    if initial_window is not None:
        client.h2.local_settings[SettingCodes.INITIAL_WINDOW_SIZE] = initial_window
        client.h2.local_settings.acknowledge()
    client.h2.initiate_connection()
    client.flush()
    task = asyncio.create_task(client.read())
    yield client
    await hang_up(writer.transport)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def message_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


async def test_goaway_names_the_last_stream_and_the_others_were_not_processed_P5(simulation: Simulation) -> None:
    """Streams 1 and 3 wait for their answer when stream 5 brings GOAWAY(last=1): 1 is answered, 3 and 5 are not."""
    for number in (1, 2):
        match = {"reference": message_id(number)}
        await simulation.program("apns", {"delayMs": 700}, match=match)
    await simulation.program(
        "apns",
        {"http2": {"goaway": {"lastStreamId": 1, "debugData": '{"reason":"Shutdown"}'}}},
        match={"reference": message_id(3)},
    )
    async with connected(simulation) as client:
        token = simulation.provider_token()
        assert [client.push(token, message_id(number)) for number in (1, 2, 3)] == [1, 3, 5]

        async def ended() -> bool:
            return client.closed

        await until(ended)
        (goaway,) = client.goaways
        answered = sorted(client.answered())
    assert (goaway.last_stream_id, goaway.additional_data) == (1, b'{"reason":"Shutdown"}')
    entries = {entry["reference"]: entry["accepted"] for entry in await simulation.messages(provider="apns")}
    assert entries == {message_id(1): True, message_id(2): False, message_id(3): False}
    assert answered == [1]


async def test_lowered_stream_limit_is_announced_P5(simulation: Simulation) -> None:
    await simulation.program("apns", {"http2": {"maxConcurrentStreams": 3}}, times=1)
    async with connected(simulation) as client:
        client.push(simulation.provider_token(), message_id(1))

        async def lowered() -> bool:
            return client.h2.remote_settings.max_concurrent_streams == 3

        await until(lowered)
        assert any(isinstance(event, RemoteSettingsChanged) for event in client.events)

        async def answered() -> bool:
            return client.answered() == {1}

        await until(answered)


async def test_a_reply_waits_for_the_clients_window(simulation: Simulation) -> None:
    """A body of 600 bytes to a client whose windows hold 256: the rest comes with WINDOW_UPDATE, not before."""
    await simulation.program("apns", {"status": 400, "body": "x" * 600})
    async with connected(simulation, initial_window=256) as client:
        stream_id = client.push(simulation.provider_token(), message_id(1))

        def received() -> int:
            return sum(len(event.data) for event in client.events if isinstance(event, DataReceived))

        async def window_full() -> bool:
            return received() == 256

        await until(window_full)
        assert not any(isinstance(event, StreamEnded) for event in client.events)
        client.h2.increment_flow_control_window(1000, stream_id)
        client.flush()

        async def ended() -> bool:
            return any(isinstance(event, StreamEnded) for event in client.events)

        await until(ended)
        assert received() == 600


async def test_a_header_that_is_no_text_is_answered(simulation: Simulation) -> None:
    async with connected(simulation) as client:
        client.push(simulation.provider_token(), message_id(1), (b"apns-expiration", b"\xff"))

        async def answered() -> bool:
            return client.answered() == {1}

        await until(answered)
    assert (await simulation.only(provider="apns"))["error"] == "BadExpirationDate"


async def test_a_client_that_does_not_speak_http2_is_cut_off(simulation: Simulation) -> None:
    context = ssl.create_default_context(cafile=simulation.endpoints["caFile"])
    host, _, port = str(simulation.endpoints["apns"]).removeprefix("https://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    frames = await asyncio.wait_for(reader.read(), 60)
    assert b"HTTP/1.1" not in frames
    await hang_up(writer.transport)
