import asyncio
import json
import signal
import sys
from pathlib import Path

import httpx
import pytest

from ops.simulator.assembly import open_simulator
from ops.simulator.settings import SimulatorSettings
from tests.integration.plain_http import plain_client
from tests.integration.simulator.simulation import Simulation, hang_up, until


async def test_ready_and_endpoints(simulation: Simulation) -> None:
    assert (await simulation.control.get("/healthz")).status_code == 200
    assert (await simulation.control.get("/readyz")).status_code == 200
    assert (await simulation.control.get("/_sim/endpoints")).json() == simulation.endpoints


async def test_pages_of_messages_and_counts_per_reference(simulation: Simulation) -> None:
    for number in range(5):
        callback = f"http://127.0.0.1:9/?ref=r{number % 2}"
        await simulation.send_sms(simulation.control, StatusCallback=callback)
    first = (await simulation.control.get("/_sim/messages", params={"limit": 3})).json()
    assert len(first["messages"]) == 3
    assert first["counts"] == {"r0": {"calls": 3, "accepted": 3}, "r1": {"calls": 2, "accepted": 2}}
    second = (await simulation.control.get("/_sim/messages", params={"cursor": first["cursor"]})).json()
    assert [entry["reference"] for entry in second["messages"]] == ["r1", "r0"]
    assert second["cursor"] is None
    since = first["messages"][1]["seq"]
    assert len(await simulation.messages(since=since)) == 3
    assert len(await simulation.messages(since=first["messages"][0]["receivedAt"])) == 5
    stats = (await simulation.control.get("/_sim/stats")).json()
    assert stats["providers"]["twilio"]["byStatus"] == {"201": 5}
    assert stats["references"] == {"distinct": 2, "acceptedMoreThanOnce": 2, "forgotten": 0}


async def test_delete_forgets_messages_and_faults(simulation: Simulation) -> None:
    await simulation.program("twilio", {"status": 503})
    assert (await simulation.send_sms(simulation.control)).status_code == 503
    assert (await simulation.control.delete("/_sim")).status_code == 204
    assert await simulation.messages() == []
    assert (await simulation.send_sms(simulation.control)).status_code == 201


async def test_a_fault_is_listed_and_removed(simulation: Simulation) -> None:
    fault_id = await simulation.program("apns", {"status": 500}, times=2)
    (listed,) = (await simulation.control.get("/_sim/faults")).json()["faults"]
    assert (listed["id"], listed["remaining"], listed["hits"]) == (fault_id, 2, 0)
    assert (await simulation.control.delete(f"/_sim/faults/{fault_id}")).status_code == 204
    assert (await simulation.control.delete(f"/_sim/faults/{fault_id}")).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "says"),
    [
        pytest.param("POST", "/_sim/faults", "{", 422, "invalid_request", "give JSON", id="not-json"),
        pytest.param("POST", "/_sim/faults", "{}", 422, "invalid_request", "provider", id="no-provider"),
        pytest.param(
            "POST", "/_sim/faults", '{"provider":"x","action":{}}', 422, "unknown_provider", "smtp", id="provider"
        ),
        pytest.param(
            "POST",
            "/_sim/faults",
            '{"provider":"smtp","match":{"to":"a@b.c"},"action":{"smtp":{"phase":"mail","code":421}}}',
            422,
            "invalid_request",
            "match.to is not known yet",
            id="match-too-early",
        ),
        pytest.param("GET", "/_sim/messages?since=yesterday", "", 422, "invalid_request", "RFC 3339", id="since"),
        pytest.param("GET", "/_sim/messages?who=me", "", 422, "invalid_request", "who", id="unknown-parameter"),
        pytest.param("POST", "/_sim/messages", "", 405, "method_not_allowed", "GET", id="method"),
        pytest.param("GET", "/nowhere", "", 404, "not_found", "/_sim/", id="path"),
        pytest.param("POST", "/_sim/callbacks/none", '{"status":"sent"}', 404, "no_receipt", "none", id="reference"),
    ],
)
async def test_bad_input_is_told_what_is_wrong(
    simulation: Simulation, method: str, path: str, body: str, status: int, code: str, says: str
) -> None:
    response = await simulation.control.request(method, path, content=body)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert says in response.json()["detail"]
    assert response.headers["content-type"] == "application/problem+json"


async def test_broken_http_closes_only_its_connection(simulation: Simulation) -> None:
    url = httpx.URL(simulation.endpoints["url"])
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"NOT HTTP AT ALL\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400")
    await hang_up(writer.transport)
    assert (await simulation.control.get("/healthz")).status_code == 200


async def test_it_prints_its_endpoints_and_ends_on_sigterm_while_a_call_waits(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ops.simulator", "--state-dir", str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        endpoints = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
        assert json.loads((tmp_path / "endpoints.json").read_bytes()) == endpoints
        async with plain_client(base_url=endpoints["url"], trust_env=False) as client:
            waiting = Simulation(endpoints, client)
            await waiting.program("twilio", {"delayMs": 3_600_000})
            call = asyncio.create_task(waiting.send_sms(client))

            async def recorded() -> bool:
                return len(await waiting.messages(provider="twilio")) == 1

            await until(recorded)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 60) == 0
            with pytest.raises(httpx.TransportError):
                await call
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_keys_and_access_tokens_outlive_a_restart(tmp_path: Path) -> None:
    """Clients keep their keys and tokens; a supervisor may restart the simulator at any time."""
    async with (
        open_simulator(SimulatorSettings(state_dir=tmp_path)) as endpoints,
        plain_client() as control,
    ):
        before = Simulation(dict(endpoints), control)
        access, signed, authority = await before.access_token(), before.provider_token(), before.tls
    async with open_simulator(SimulatorSettings(state_dir=tmp_path)) as endpoints, httpx.AsyncClient() as control:
        after = Simulation(dict(endpoints), control)
        async with httpx.AsyncClient(http2=True, http1=False, verify=authority, trust_env=False) as client:
            assert (await after.push_apns(client, jwt_text=signed)).status_code == 200
            response = await after.push_fcm(client, access, {"message": {"token": "t", "data": {"a": "1"}}})
            assert response.status_code == 200
