"""What the supervisor does with processes, shown with small fakes of services."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ops.dev.paths import StackPaths, project_root
from ops.dev.ports import load_ports
from ops.dev.status import Phase, ProcessState, ProcessStatus, StackStatus, read_status
from tests.integration.dev.conftest import all_gone, wait_for


@dataclass
class Supervised:
    paths: StackPaths
    journal: Path
    process: "subprocess.Popen[bytes]"

    def status(self) -> StackStatus:
        return read_status(self.paths.status)

    def of(self, name: str) -> ProcessStatus:
        return next(item for item in self.status().processes if item.name == name)

    def is_ready(self) -> bool:
        return self.status().ready

    def lines(self) -> list[str]:
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def everything(self) -> list[int]:
        process = psutil.Process(self.process.pid)
        return [process.pid, *(child.pid for child in process.children(recursive=True))]


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[[str], Supervised]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(plan: str) -> Supervised:
        journal = tmp_path / "journal"
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.dev.fake_supervisor", plan],
            env={**os.environ, "ULAK_STATE_DIR": str(tmp_path / "state"), "FAKE_JOURNAL": str(journal)},
            cwd=project_root(),
        )
        started.append(process)
        return Supervised(StackPaths(tmp_path / "state"), journal, process)

    yield start
    for process in started:
        process.terminate()
        process.wait(30)


def crash(port: int) -> None:
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/crash", timeout=5)


def test_a_service_that_dies_is_started_again_and_counted(supervise: Callable[[str], Supervised]) -> None:
    run = supervise("two")
    wait_for("ready", run.is_ready)
    first = run.of("a").pid
    port = load_ports(run.paths.ports)["a-health"]
    crash(port)
    wait_for("a again", lambda: run.of("a").restarts == 1 and run.is_ready())
    assert run.of("a").pid != first
    assert run.of("b").restarts == 0
    crash(port)
    wait_for("a once more", lambda: run.of("a").restarts == 2 and run.is_ready())


def test_services_end_before_the_simulator_they_use(supervise: Callable[[str], Supervised]) -> None:
    run = supervise("two")
    wait_for("ready", run.is_ready)
    pids = run.everything()
    run.process.terminate()
    assert run.process.wait(30) == 0
    stops = [line for line in run.lines() if line.startswith("stop")]
    assert sorted(stops[:2]) == ["stop a", "stop b"]
    assert stops[2:] == ["stop simulator"]
    assert run.status().phase is Phase.DOWN
    assert all_gone(pids), "also the process that b started"


def test_killing_the_supervisor_ends_grandchildren_too(supervise: Callable[[str], Supervised]) -> None:
    run = supervise("two")
    wait_for("ready", run.is_ready)
    pids = run.everything()
    grandchild = next(int(line.split()[1]) for line in run.lines() if line.startswith("child"))
    assert grandchild in pids
    run.process.kill()
    wait_for("all gone", lambda: all_gone(pids), 60)


def test_what_a_dead_service_left_is_ended_before_it_starts_again(supervise: Callable[[str], Supervised]) -> None:
    run = supervise("two")
    wait_for("ready", run.is_ready)
    grandchild = next(int(line.split()[1]) for line in run.lines() if line.startswith("child"))
    crash(load_ports(run.paths.ports)["b-health"])
    wait_for("b again", lambda: run.of("b").restarts == 1 and run.is_ready())
    assert all_gone([grandchild])


def test_one_that_keeps_dying_is_named_with_its_reason_and_the_others_stay(
    supervise: Callable[[str], Supervised],
) -> None:
    run = supervise("one-dies")
    wait_for("a verdict", lambda: run.status().phase is Phase.RUNNING)
    status = run.status()
    assert "b keeps ending at its start" in status.error
    assert "error: b lacks its setting" in status.error
    assert not status.ready
    assert run.of("a").state is ProcessState.READY
    assert run.of("b").restarts >= 2


def test_one_that_runs_and_says_no_is_not_ready(supervise: Callable[[str], Supervised]) -> None:
    run = supervise("one-silent")
    wait_for("a is ready", lambda: bool(run.status().processes) and run.of("a").state is ProcessState.READY)
    assert run.of("b").state is ProcessState.STARTING
    assert not run.status().ready
    assert run.status().waiting_for() == ["b"]
