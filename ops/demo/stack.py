"""The demo's own stack: `ulak dev` in a state folder of its own, fresh at every start."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ops.cli.errors import CommandError


@dataclass(frozen=True, slots=True)
class DemoStack:
    """Starts and ends the stack through the same command a person would type."""

    state_dir: Path

    def up(self) -> Mapping[str, str]:
        """Wipe what an earlier demo left, start everything, and return the settings of `ulak dev env`."""
        self._ulak("dev", "down", "--wipe")
        self._ulak("dev", "up")
        printed = self._ulak("dev", "env", capture=True)
        return dict(part.split("=", 1) for line in printed.splitlines() for part in shlex.split(line) if "=" in part)

    def down(self) -> None:
        self._ulak("dev", "down", "--wipe")

    def _ulak(self, *arguments: str, capture: bool = False) -> str:
        finished = subprocess.run(  # noqa: S603  our own command
            [sys.executable, "-m", "ops.cli", *arguments],
            env={**os.environ, "ULAK_STATE_DIR": str(self.state_dir)},
            stdout=subprocess.PIPE if capture else None,
            text=True,
            check=False,
        )
        if finished.returncode != 0:
            raise CommandError(f"`ulak {' '.join(arguments)}` failed; what it said stands above.")
        return finished.stdout or ""
