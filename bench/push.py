"""Pushes a second with claim and outcome in the ledger, against the transport alone posting the same bodies.

Both to the same HTTP/2 TLS sink, as many on the wire. The lane is push-bulk: a campaign is where the rate matters.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError
from bench.lane import Load, Stage, free_port, open_stage, prepared, sink
from ops.simulator import credential
from shared.core.ports import Transport
from shared.providers.push.apns.client import APNS, TransportCarrier
from shared.providers.push.apns.request import ApnsRequest, build
from shared.providers.push.apns.settings import ApnsSettings
from shared.providers.push.apns.token import ProviderToken
from shared.providers.transport import open_transport
from shared.wire.channel import DEFAULT_CHANNELS

LOAD: Final = Load(
    lane=DEFAULT_CHANNELS.lane("push-bulk"),
    count=20_000,
    address=lambda number: f"{number:064x}",
    content={"title": "Kargonuz yolda", "body": "98213 numaralı siparişiniz bugün teslim edilecek."},
    platform="IOS",
)


async def counts(url: str, ca_file: Path) -> tuple[int, int]:
    async with httpx.AsyncClient(http2=True, verify=str(ca_file), trust_env=False) as client:
        found = (await client.get(f"{url}/count")).json()
    return found["requests"], found["distinct"]


async def limit(transport: Transport, token: ProviderToken, settings: ApnsSettings) -> Sample:
    carrier = TransportCarrier(settings.base_url, transport, token)
    requests: Iterator[ApnsRequest] = iter(
        [build(message, "com.example.shop", datetime.now(UTC)) for message in prepared(LOAD)]
    )
    refused: list[int] = []

    async def post() -> None:
        for request in requests:
            reply = await carrier(request, 20.0)
            if reply.status != 200:
                refused.append(reply.status)

    started = time.perf_counter()
    await asyncio.gather(*(post() for _ in range(settings.concurrency)))
    seconds = time.perf_counter() - started
    if refused:
        raise WrongResultError(f"{len(refused)} refused")
    return Sample(LOAD.count, seconds)


@asynccontextmanager
async def open_bench(servers: Servers) -> AsyncIterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="ulak-bench-"))
    tls = credential.tls(folder, datetime.now(UTC))
    key_pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.p8").write_bytes(key_pem)
    port = free_port()
    settings = ApnsSettings(
        key_file=folder / "key.p8",
        key_id="BENCHKEY01",
        team_id="BENCHTEAM1",
        topic="com.example.shop",
        base_url=f"https://127.0.0.1:{port}",
        ca_file=tls.ca_file,
    )
    token = ProviderToken(key_pem=key_pem.decode(), key_id="BENCHKEY01", team_id="BENCHTEAM1", clock=time.time)
    arguments = (str(port), str(tls.certificate_file), str(tls.key_file))
    async with (
        sink("bench.http_sink", *arguments, port=port) as pid,
        open_transport(ca_file=tls.ca_file) as transport,
        APNS.open(settings) as sender,
        open_stage(servers, LOAD, quotas={}) as stage,
    ):

        async def figure(stage: Stage = stage) -> Sample:
            return await stage.work(sender, lambda: counts(settings.base_url, tls.ca_file))

        yield Pair(figure, lambda: limit(transport, token, settings), lambda: [pid])


BENCH: Final = Bench(name="push", unit="pushes/s", first=0.5, goal=0.8, open=open_bench)
