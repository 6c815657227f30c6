"""The simulated registry: its shapes, its rules and its feed; fixtures: simulation."""

import secrets
from typing import Any

import httpx
import pytest

from tests.integration.simulator.simulation import Simulation

YES = {  # of a number that no other test uses: `Registry.yes`
    "consentDate": "2026-02-10 09:30:00",
    "source": "HS_WEB",
    "recipient": "+905813334455",
    "recipientType": "BIREYSEL",
    "status": "ONAY",
    "type": "MESAJ",
}


class Registry:
    """A caller with a token."""

    def __init__(self, simulation: Simulation) -> None:
        told = simulation.endpoints
        self.client = simulation.control
        self.path = f"/sps/{told['iysCode']}/brands/{told['iysBrandCode']}/consents"
        self.credentials = {
            "username": told["iysUsername"],
            "password": told["iysPassword"],
            "grant_type": "password",
        }
        self.headers: dict[str, str] = {}
        self.recipient = f"+9053{secrets.randbelow(10**7):07}1"
        self.yes = YES | {"recipient": self.recipient}

    async def log_in(self) -> None:
        answer = await self.client.post("/oauth2/token", json=self.credentials)
        assert answer.json()["expires_in"] == 7200
        self.headers = {"authorization": f"Bearer {answer.json()['access_token']}"}

    async def post(self, path: str, body: Any) -> httpx.Response:
        return await self.client.post(f"{self.path}{path}", json=body, headers=self.headers)

    async def get(self, path: str, **query: str) -> Any:
        return (await self.client.get(f"{self.path}{path}", params=query, headers=self.headers)).json()


@pytest.fixture
async def registry(simulation: Simulation) -> Registry:
    made = Registry(simulation)
    await made.log_in()
    return made


async def test_a_wrong_password_and_no_token_are_turned_away(simulation: Simulation, registry: Registry) -> None:
    wrong = registry.credentials | {"password": "guess"}
    assert (await simulation.control.post("/oauth2/token", json=wrong)).status_code == 401
    registry.headers = {}
    assert (await registry.post("", registry.yes)).status_code == 401


async def test_a_single_consent(registry: Registry) -> None:
    answer = await registry.post("", registry.yes)
    assert (answer.status_code, set(answer.json())) == (200, {"transactionId", "creationDate"})
    status = await registry.post(
        "/status", {"recipient": registry.recipient, "recipientType": "BIREYSEL", "type": "MESAJ"}
    )
    assert status.json() == registry.yes


@pytest.mark.parametrize(
    ("changed", "location"),
    [
        pytest.param({"recipient": ""}, ["recipient"], id="nobody"),
        pytest.param({"recipient": "5813334455"}, ["recipient"], id="bad-number"),
        pytest.param({"type": "EPOSTA"}, ["recipient"], id="a-number-for-an-address"),
        pytest.param({"source": "ONE_CLICK", "type": "FAX"}, ["type", "source"], id="two-fields"),
        pytest.param({"consentDate": "2015-04-30 00:00:00"}, ["consentDate"], id="before-the-law"),
        pytest.param({"consentDate": "2199-01-01 00:00:00"}, ["consentDate"], id="future"),
        pytest.param({"status": "RET"}, ["status"], id="a-first-refusal"),
    ],
)
async def test_errors_by_field(registry: Registry, changed: dict[str, str], location: list[str]) -> None:
    answer = await registry.post("", registry.yes | changed)
    assert answer.status_code == 422
    assert [place for error in answer.json()["errors"] for place in error["location"]] == location


async def test_a_line_is_taken_only_if_it_is_later_and_changes_something(registry: Registry) -> None:
    await registry.post("", registry.yes)
    assert (await registry.post("", registry.yes)).json()["errors"][0]["location"] == ["consentDate"]
    later = registry.yes | {"consentDate": "2026-02-11 09:30:00"}
    assert (await registry.post("", later)).json()["errors"][0]["location"] == ["status"]
    assert (await registry.post("", later | {"status": "RET"})).status_code == 200


async def test_a_batch_is_asked_for_its_results(registry: Registry) -> None:
    told = (await registry.post("/request", [registry.yes, registry.yes | {"recipient": "no"}])).json()
    good, bad = (line["subrequestId"] for line in told["subRequests"])
    path = f"/request/{told['requestId']}"
    assert [line["status"] for line in await registry.get(path)] == ["enqueue", "enqueue"]
    results = {line["subrequestId"]: line for line in await registry.get(path)}
    assert results[good]["status"] == "success"
    assert (results[bad]["status"], results[bad]["error"]["code"]) == ("failure", "S114")


async def test_changes_come_in_order_behind_a_mark(registry: Registry) -> None:
    mark = (await registry.get("/changes", source="IYS"))["after"]
    for number in range(3):
        change = {**YES, "source": "IYS_WEB", "status": "RET", "recipient": f"{registry.recipient[:-1]}{number}"}
        assert (await registry.client.post("/_sim/iys/changes", json=change)).status_code == 201
    first = await registry.get("/changes", source="IYS", after=mark)
    assert [line["recipient"][-1] for line in first["list"]] == ["0", "1", "2"]
    assert {line["source"] for line in first["list"]} == {"IYS_WEB"}
    assert (await registry.get("/changes", source="IYS", after=first["after"]))["list"] == []
    assert (await registry.get("/changes", source="HS"))["list"] == []
