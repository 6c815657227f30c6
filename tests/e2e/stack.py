"""A whole embedded stack for tests, driven through the `ulak` command as a person would."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx

from ops.dev.environment import SERVER_SETTINGS
from ops.dev.paths import StackPaths
from ops.dev.status import ProcessState, ProcessStatus, read_status

T = TypeVar("T")


class Stack:
    """One stack in one state folder, with its own servers whatever the environment names."""

    def __init__(self, state_dir: Path, settings: Mapping[str, str] | None = None) -> None:
        self.state_dir = state_dir
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in SERVER_SETTINGS.values()},
            "ULAK_STATE_DIR": str(state_dir),
            **(settings or {}),
        }
        self.settings: Mapping[str, str] = {}

    def ulak(self, *arguments: str, check: bool = True) -> str:
        """Run `ulak ...` against this stack and return what it printed."""
        finished = subprocess.run(
            [sys.executable, "-m", "ops.cli", *arguments],
            env={**self._environment, **self.settings},
            capture_output=True,
            text=True,
            check=False,
            timeout=170,
        )
        if check and finished.returncode != 0:
            raise AssertionError(
                f"ulak {' '.join(arguments)} ended with {finished.returncode}:\n{finished.stderr[-3000:]}"
            )
        return finished.stdout

    def up(self) -> None:
        self.settings = {}
        self.ulak("dev", "up")
        printed = self.ulak("dev", "env")
        self.settings = dict(part.split("=", 1) for part in shlex.split(printed))

    def down(self, *, wipe: bool = False) -> None:
        self.settings = {}
        self.ulak("dev", "down", *(("--wipe",) if wipe else ()))

    def processes(self) -> dict[str, ProcessStatus]:
        """What `ulak dev status` reads, without starting a Python for it."""
        return {process.name: process for process in read_status(StackPaths(self.state_dir).status).processes}

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to one process of the stack by its name."""
        pid = self.processes()[name].pid
        assert pid is not None, f"{name} is not running"
        os.kill(pid, number)

    def kill(self, name: str) -> None:
        """SIGKILL one process and wait until the supervisor has another one ready."""
        before = self.processes()[name].restarts
        self.signal(name, signal.SIGKILL)

        def back() -> bool | None:
            process = self.processes()[name]
            return True if process.restarts > before and process.state is ProcessState.READY else None

        eventually(back, f"{name} being ready again")

    def http(self, setting: str) -> httpx.Client:
        """A client of one of the stack's surfaces, with its API key."""
        return httpx.Client(
            base_url=self.settings[setting],
            headers={"Authorization": f"Bearer {self.settings['ULAK_API_KEY']}"},
            timeout=10,
        )

    def arrived(self, provider: str) -> list[dict[str, Any]]:
        """Every call that reached the simulator's provider, all pages."""
        messages: list[dict[str, Any]] = []
        cursor = None
        with httpx.Client(base_url=self.settings["ULAK_SIMULATOR_URL"], timeout=10) as client:
            while True:
                page = client.get(
                    "/_sim/messages", params={"provider": provider, **({"cursor": cursor} if cursor else {})}
                ).json()
                messages += page["messages"]
                cursor = page.get("cursor")
                if not cursor or not page["messages"]:
                    return messages

    def forget_messages(self) -> None:
        httpx.delete(f"{self.settings['ULAK_SIMULATOR_URL']}/_sim", timeout=10).raise_for_status()


def persistently(call: Callable[[], httpx.Response], *, within_sec: float = 60) -> httpx.Response:
    """Repeat a call as a caller with an idempotency key may: on lost connections and 5xx, until it is answered."""
    deadline = time.monotonic() + within_sec
    while True:
        try:
            reply = call()
        except httpx.TransportError:
            reply = None
        if reply is not None and reply.status_code < 500:
            return reply
        if time.monotonic() > deadline:
            raise AssertionError(f"no answer within {within_sec} s: {reply}")
        time.sleep(0.1)


def eventually(look: Callable[[], T | None], what: str, *, within_sec: float = 60) -> T:
    """The first answer of `look` that is not None."""
    deadline = time.monotonic() + within_sec
    while True:
        seen = look()
        if seen is not None:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {within_sec} s")
        time.sleep(0.1)
