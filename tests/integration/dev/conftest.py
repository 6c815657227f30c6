"""A stack of its own for a test, in a folder of its own, ended and removed afterwards."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from ops.dev.environment import SERVER_SETTINGS
from ops.dev.paths import StackPaths, project_root


def wait_for(what: str, condition: Callable[[], bool], timeout_sec: float = 90) -> None:
    """Look until it holds; fail with its name when it does not in time."""
    deadline = time.monotonic() + timeout_sec
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


def without_servers(environ: dict[str, str]) -> dict[str, str]:
    """An environment in which no server is external, wherever the tests themselves run."""
    return {name: value for name, value in environ.items() if name not in SERVER_SETTINGS.values()}


@dataclass
class StackCli:
    """`ulak dev` as a person calls it, on one state folder."""

    state: Path
    environment: dict[str, str] = field(default_factory=lambda: without_servers(dict(os.environ)))

    @property
    def paths(self) -> StackPaths:
        return StackPaths(self.state)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ops.dev", *arguments]

    def settings(self) -> dict[str, str]:
        return {**self.environment, "ULAK_STATE_DIR": str(self.state)}

    def run(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*arguments),
            env={**self.settings(), **more},
            cwd=project_root(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def ok(self, *arguments: str, **more: str) -> str:
        done = self.run(*arguments, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def processes(self) -> dict[str, dict[str, Any]]:
        return {item["name"]: item for item in json.loads(self.ok("status", "--json"))["processes"]}

    def env(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.ok("env").splitlines())

    def supervisor(self) -> int:
        return int(json.loads(self.paths.status.read_text())["supervisor_pid"])

    def everything(self) -> list[int]:
        """The pids of all that belongs to it: supervisor, watchdog, servers and what they started."""
        supervisor = psutil.Process(self.supervisor())
        return [supervisor.pid, *(child.pid for child in supervisor.children(recursive=True))]


def all_gone(pids: list[int]) -> bool:
    def runs(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return not any(runs(pid) for pid in pids)


@pytest.fixture
def make_stack(tmp_path: Path) -> Iterator[Callable[[str], StackCli]]:
    made: list[StackCli] = []

    def make(name: str) -> StackCli:
        made.append(StackCli(tmp_path / name))
        return made[-1]

    yield make
    for stack in made:
        stack.ok("down", "--wipe")
        assert not stack.state.exists()


@pytest.fixture
def stack(make_stack: Callable[[str], StackCli]) -> StackCli:
    return make_stack("stack")
