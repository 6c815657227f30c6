"""`ulak api-keys`, `ulak send` and `ulak why` against the running service."""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from tests.integration.ingest.conftest import ORDER, Ingest, until

PARAMS = orjson.dumps(ORDER["params"]).decode()


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str


async def start(environment: Mapping[str, str], *arguments: str) -> asyncio.subprocess.Process:
    """`ulak <arguments>` as a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ops.cli",
        *arguments,
        env=os.environ | {"COLUMNS": "200", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def end_of(child: asyncio.subprocess.Process) -> Ended:
    stdout, stderr = await child.communicate()
    return Ended(child.returncode or 0, stdout.decode(), " ".join(stderr.decode().split()))


async def run(environment: Mapping[str, str], *arguments: str) -> Ended:
    return await end_of(await start(environment, *arguments))


def environment_of(ingest: Ingest, database: str) -> dict[str, str]:
    secret = ingest.client.headers["authorization"].removeprefix("Bearer ")
    return {"ULAK_INGEST_URL": ingest.url, "ULAK_API_KEY": secret, "ULAK_POSTGRES_DSN": database}


async def test_a_created_key_sends_and_a_revoked_one_does_not(ingest: Ingest, database: str) -> None:
    environment = environment_of(ingest, database)
    created = await run(
        environment, "api-keys", "create", "--name", "ci", "--application", "shop", "--rate", "5", "--json"
    )
    key = orjson.loads(created.stdout)
    assert key["secret"].startswith("ulak_live_")
    assert len(key["secret"]) == len("ulak_live_") + 43
    environment["ULAK_API_KEY"] = key["secret"]
    sent = await run(
        environment, "send", "--user", "7", "--type", "ORDER_SHIPPED", "--params", PARAMS, "-p", "carrier=B", "--json"
    )
    identifier = orjson.loads(sent.stdout)["notificationId"]
    told = await run(environment, "why", identifier)
    assert "It is accepted and waits to be decided." in told.stdout
    assert "Accepted as ORDER_SHIPPED for user 7" in " ".join(told.stdout.split())
    listed = orjson.loads((await run(environment, "api-keys", "list", "--json")).stdout)["keys"]
    assert [(entry["name"], entry["ratePerSecond"]) for entry in listed if entry["id"] == key["id"]] == [("ci", 5)]
    assert key["secret"] not in str(listed)
    assert (await run(environment, "api-keys", "revoke", key["id"])).code == 0

    async def refused() -> bool:
        answer = await run(environment, "why", identifier, "--json")
        return answer.code == 1 and "unauthenticated" in answer.stderr

    await until(refused)


async def test_refusals_are_the_apis_own_sentences(ingest: Ingest, database: str) -> None:
    environment = environment_of(ingest, database)
    sent = await run(environment, "send", "--user", "7", "--type", "ORDER_SHIPPED", "-p", "orderNo=1")
    assert sent.code == 1
    assert "ORDER_SHIPPED for EMAIL in tr needs carrier and trackingUrl." in sent.stderr
    unreachable = await run(environment | {"ULAK_INGEST_URL": "http://127.0.0.1:1"}, "why", "ntf_x")
    assert "start the ingest service" in unreachable.stderr


async def test_why_by_event_id_and_send_with_wait(ingest: Ingest, database: str) -> None:
    environment = environment_of(ingest, database)
    arguments = ("--user", "7", "--type", "ORDER_SHIPPED", "--params", PARAMS, "--event-id", "e-1")
    sent = await run(environment, "send", *arguments, "--wait", "0.1")
    assert "has not settled after 0.1 s (state ACCEPTED" in sent.stderr
    told = orjson.loads((await run(environment, "why", "e-1", "--event", "--json")).stdout)
    assert told["state"] == "ACCEPTED"
