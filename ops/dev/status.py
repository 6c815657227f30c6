"""What the supervisor tells the commands, in one file that is replaced as a whole."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from ops.dev.files import write_private
from ops.dev.processes import identity_of


class Phase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"
    DOWN = "down"


class Kind(StrEnum):
    SERVER = "server"
    SIMULATOR = "simulator"
    SERVICE = "service"


class ProcessState(StrEnum):
    WAITING = "waiting"  # for what has to be there before it
    STARTING = "starting"
    READY = "ready"
    NOT_READY = "not-ready"  # runs, and says that it cannot work now
    BACK_OFF = "back-off"  # died, is started again after a while
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One supervised process. `identity` tells its process from a later one with the same pid."""

    name: str
    kind: Kind
    log: str
    state: ProcessState = ProcessState.WAITING
    pid: int | None = None
    identity: str | None = None
    restarts: int = 0
    url: str | None = None

    def public(self) -> dict[str, object]:
        """The shape of `ulak dev status --json`; `url` only where there is one to call."""
        shown: dict[str, object] = {
            "name": self.name,
            "kind": str(self.kind),
            "pid": self.pid,
            "state": str(self.state),
            "restarts": self.restarts,
        }
        if self.url is not None:
            shown["url"] = self.url
        return {**shown, "log": self.log}


@dataclass(frozen=True, slots=True)
class StackStatus:
    """The whole stack. `environment` is what `ulak dev env` prints and holds passwords."""

    phase: Phase = Phase.DOWN
    supervisor_pid: int = 0
    supervisor_identity: str = ""
    step: str = ""
    error: str = ""
    processes: tuple[ProcessStatus, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def ready(self) -> bool:
        return self.phase is Phase.RUNNING and all(item.state is ProcessState.READY for item in self.processes)

    @property
    def supervised(self) -> bool:
        """Whether the supervisor that wrote this still lives."""
        return bool(self.supervisor_identity) and identity_of(self.supervisor_pid) == self.supervisor_identity

    def waiting_for(self) -> list[str]:
        return [item.name for item in self.processes if item.state is not ProcessState.READY]

    def public(self) -> dict[str, object]:
        """`ulak dev status --json`: {"ready": bool, "processes": [...]}; nothing runs without its supervisor."""
        alive = self.supervised
        return {
            "ready": alive and self.ready,
            "processes": [item.public() for item in self.processes] if alive else [],
        }

    def with_process(self, process: ProcessStatus) -> Self:
        """The same with one process replaced."""
        return replace(self, processes=tuple(process if item.name == process.name else item for item in self.processes))


def read_status(path: Path) -> StackStatus:
    """The last written status; a stack that is down when there is none or a person damaged it."""
    try:
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return StackStatus()


def write_status(path: Path, status: StackStatus) -> None:
    write_private(path, json.dumps(asdict(status), indent=2))


def _parse(stored: Any) -> StackStatus:
    processes = tuple(
        ProcessStatus(**{**item, "kind": Kind(item["kind"]), "state": ProcessState(item["state"])})
        for item in stored["processes"]
    )
    return StackStatus(**{**stored, "phase": Phase(stored["phase"]), "processes": processes})
