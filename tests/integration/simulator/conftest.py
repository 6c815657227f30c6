import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.plain_http import plain_client
from tests.integration.simulator.simulation import Simulation


@pytest.fixture(scope="session")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("simulator")


@pytest.fixture(scope="session")
def endpoints(state_dir: Path) -> Iterator[dict[str, Any]]:
    """The simulator as it is run: a process of its own. At the end it must have logged no failure of its own."""
    log = state_dir / "stderr.log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "ops.simulator", "--state-dir", str(state_dir)],
            stdout=subprocess.PIPE,
            stderr=stderr,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            assert process.wait(10) == 0
    logged = log.read_text()
    assert "Traceback" not in logged, logged
    assert "simulator_handler_failed" not in logged, logged


@pytest.fixture
async def simulation(endpoints: dict[str, Any]) -> AsyncIterator[Simulation]:
    """The simulator as after a fresh start: no message, no fault, receipts sent as by default."""
    async with plain_client(base_url=str(endpoints["url"]), trust_env=False) as control:
        assert (await control.delete("/_sim")).status_code == 204
        assert (await control.put("/_sim/receipts", json={})).status_code == 200
        yield Simulation(endpoints, control)
