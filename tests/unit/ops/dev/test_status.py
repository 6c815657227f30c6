"""The status file survives a round trip, and its public shape is the one that scripts rely on."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from ops.dev.processes import identity_of
from ops.dev.status import Kind, Phase, ProcessState, ProcessStatus, StackStatus, read_status, write_status

RELAY = ProcessStatus("relay", Kind.SERVICE, "/state/logs/relay.log", ProcessState.READY, 12, "boot:34", 1)
INGEST = replace(RELAY, name="ingest", pid=13, url="http://127.0.0.1:20001")
UP = StackStatus(
    phase=Phase.RUNNING,
    supervisor_pid=os.getpid(),
    supervisor_identity=identity_of(os.getpid()) or "",
    processes=(INGEST, RELAY),
    environment={"ULAK_API_KEY": "secret"},
)


def test_round_trip_is_readable_by_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    write_status(path, UP)
    assert read_status(path) == UP
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "{}", '{"processes": [{}]}', '{"processes": [], "phase": "x"}']
)
def test_a_damaged_file_reads_as_down(text: str, tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text(text)
    assert read_status(tmp_path / "status.json") == StackStatus()


def test_public_shape() -> None:
    assert UP.public() == {
        "ready": True,
        "processes": [
            {
                "name": "ingest",
                "kind": "service",
                "pid": 13,
                "state": "ready",
                "restarts": 1,
                "url": "http://127.0.0.1:20001",
                "log": "/state/logs/relay.log",
            },
            {
                "name": "relay",
                "kind": "service",
                "pid": 12,
                "state": "ready",
                "restarts": 1,
                "log": "/state/logs/relay.log",
            },
        ],
    }


@pytest.mark.parametrize("state", [state for state in ProcessState if state is not ProcessState.READY])
def test_one_process_that_is_not_ready_makes_the_stack_not_ready(state: ProcessState) -> None:
    status = UP.with_process(replace(RELAY, state=state))
    assert not status.ready
    assert status.waiting_for() == ["relay"]


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.RUNNING])
def test_only_a_running_stack_is_ready(phase: Phase) -> None:
    assert not replace(UP, phase=phase).ready


@pytest.mark.parametrize("identity", ["", "another boot:1"])
def test_nothing_runs_when_the_supervisor_is_gone(identity: str) -> None:
    assert replace(UP, supervisor_identity=identity).public() == {"ready": False, "processes": []}
