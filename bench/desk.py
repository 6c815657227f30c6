"""The whole embedded stack for benches of the whole: its own servers and state folder, driven through `ulak dev`."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import httpx

from bench.harness import WrongResultError
from ops.dev.paths import StackPaths
from ops.dev.stack import Stack
from ops.dev.status import Kind, StackStatus

_KEPT: Final = frozenset({"ULAK_JAVA", "ULAK_CACHE_DIR", "ULAK_MAVEN_REPOSITORY_URL"})
"""Settings of the machine. All others are those of somebody's installation, which a bench must not meet or change."""
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Desk:
    """One embedded stack, as on a developer's desk; up or down."""

    paths: StackPaths
    environ: Mapping[str, str]

    async def ulak(self, *arguments: str) -> None:
        """Run a command as a person would type it. Raises WrongResultError with what it said."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ops.cli",
            *arguments,
            env=dict(self.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
        if process.returncode != 0:
            raise WrongResultError(f"ulak {' '.join(arguments)} failed: {printed.decode(errors='replace')[-500:]}")

    async def up(self) -> None:
        """Return when every process is ready."""
        await self.ulak("dev", "up")
        status = self.status()
        if not (status.supervised and status.ready):
            raise WrongResultError(f"`ulak dev up` returned while {', '.join(status.waiting_for())} was not ready")

    async def down(self) -> None:
        await self.ulak("dev", "down")

    def status(self) -> StackStatus:
        return Stack(self.paths, self.environ).status()

    @property
    def settings(self) -> Mapping[str, str]:
        """What `ulak dev env` prints."""
        return Stack(self.paths, self.environ).environment()

    def pids(self, *kinds: Kind) -> dict[str, int]:
        """The running processes of these kinds by name, in start order; WrongResultError if one does not run."""
        found = {item.name: item.pid for item in self.status().processes if item.kind in kinds}
        running = {name: pid for name, pid in found.items() if pid is not None}
        if running.keys() != found.keys():
            raise WrongResultError(f"{', '.join(found.keys() - running.keys())} ended; see {self.paths.logs}")
        return running

    def client(self, setting: str) -> httpx.AsyncClient:
        """A client of one surface (`ULAK_INGEST_URL`, ...), with the stack's API key."""
        settings = self.settings
        return httpx.AsyncClient(
            base_url=settings[setting], headers={"Authorization": f"Bearer {settings['ULAK_API_KEY']}"}, timeout=30
        )

    async def arrivals(self, since: int = 0, provider: str | None = None) -> list[dict[str, Any]]:
        """The simulator's calls after sequence number `since`, in order."""
        found: list[dict[str, Any]] = []
        query: dict[str, str | int] = {"since": since, "limit": _PAGE} | ({"provider": provider} if provider else {})
        async with self.client("ULAK_SIMULATOR_URL") as simulator:
            while True:
                page = (await simulator.get("/_sim/messages", params=query)).raise_for_status().json()
                found += page["messages"]
                if page["cursor"] is None:
                    return found
                query["cursor"] = page["cursor"]

    async def calls(self) -> "Calls":
        async with self.client("ULAK_SIMULATOR_URL") as simulator:
            stats = (await simulator.get("/_sim/stats")).raise_for_status().json()
        return Calls(
            sum(provider["calls"] for provider in stats["providers"].values()),
            sum(provider["accepted"] for provider in stats["providers"].values()),
            stats["references"]["acceptedMoreThanOnce"],
            stats["ledger"]["seq"],
        )


@dataclass(frozen=True, slots=True)
class Calls:
    """The simulator's counts since its start. `doubled`: references that were accepted more than once."""

    calls: int
    accepted: int
    doubled: int
    seq: int


@asynccontextmanager
async def desk(settings: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[Desk]:
    """A stack that is down, in a folder of its own; whatever it is then, after the block nothing of it is left.

    settings: of its processes, beside the usual ones.
    """
    folder = _new_folder()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ULAK_") or name in _KEPT}
    stack = Desk(StackPaths(folder), {**inherited, **settings, "ULAK_STATE_DIR": str(folder)})
    try:
        yield stack
    finally:
        try:
            await stack.ulak("dev", "down", "--wipe")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ulak-desk-"))
    folder.chmod(0o755)  # PostgreSQL may run as an account of its own, see ops/dev/servers/unprivileged.py
    return folder
