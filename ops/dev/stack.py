"""Starting, asking and stopping the supervisor from another process: what the commands and the demo call."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ops.dev import servers as embedded
from ops.dev.errors import AlreadyRunningError, StackError
from ops.dev.files import tail
from ops.dev.paths import StackPaths, project_root, state_folder
from ops.dev.plan import Extent
from ops.dev.status import Phase, StackStatus, read_status, write_status
from ops.dev.supervisor import ALREADY_RUNNING_EXIT, end_left_overs, exclusive

START_TIMEOUT_SEC = 180.0
_STOP_TIMEOUT_SEC = 70.0
_POLL_SEC = 0.05
_OWN_FOLDERS = ("sample", "postgres", "valkey", "kafka", "simulator", "keys", "logs")


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack of one state folder, up or down."""

    paths: StackPaths
    environ: Mapping[str, str]

    @classmethod
    def here(cls, environ: Mapping[str, str] | None = None) -> "Stack":
        """The stack of this clone (or of ULAK_STATE_DIR)."""
        environ = os.environ if environ is None else environ
        return cls(StackPaths(state_folder(environ, project_root(), Path.cwd())), environ)

    def status(self) -> StackStatus:
        """What its supervisor wrote last. `.supervised` tells whether that one still lives."""
        return read_status(self.paths.status)

    def environment(self) -> dict[str, str]:
        """The settings to use it by. Raises StackError when it is down."""
        status = self.status()
        if not status.supervised:
            raise StackError("The stack is down. Start it with `ulak dev up`.")
        return dict(status.environment)

    def up(
        self,
        *,
        extent: Extent = Extent.ALL,
        wait: bool = True,
        timeout_sec: float = START_TIMEOUT_SEC,
        watch: Callable[[StackStatus], None] = lambda _: None,
    ) -> StackStatus:
        """Start it in the background and, with `wait`, return when all are ready; `watch` sees every status meanwhile.

        An interrupt (Ctrl-C) while it waits stops what was started. Raises AlreadyRunningError when it is up or
        starting, StackError when it cannot start. When only a service does not come up, the stack stays, for its
        logs to be read: the status then is not ready and its `error` says why.
        """
        self._refuse_if_running()
        supervisor = self._launch(extent)
        try:
            return self._await_start(supervisor, wait, time.monotonic() + timeout_sec, watch)
        except KeyboardInterrupt:
            supervisor.terminate()
            with contextlib.suppress(KeyboardInterrupt):
                supervisor.wait(_STOP_TIMEOUT_SEC)
            raise

    def down(self, *, wipe: bool = False) -> bool:
        """Stop it, in order; what does not stop is ended. `wipe` then removes its data. True when something ran.

        External servers and what is in them are not touched.
        """
        status = self.status()
        was_up = status.supervised
        if was_up:
            self._end_supervisor(status)
        left = end_left_overs(status)
        if (was_up or left) and self.paths.state.is_dir():
            write_status(self.paths.status, replace(status, phase=Phase.DOWN, processes=(), supervisor_identity=""))
        if wipe and self.paths.state.is_dir():
            with exclusive(self.paths):
                self._wipe()
        return was_up or bool(left)

    def _refuse_if_running(self) -> None:
        status = self.status()
        if not status.supervised:
            return
        if status.phase is Phase.RUNNING:
            raise AlreadyRunningError("The stack is already up.")
        raise AlreadyRunningError(
            f"Another command is at work on this stack ({status.phase}, process {status.supervisor_pid}). "
            "Wait for it (`ulak dev status` shows how far it is), or stop it with `ulak dev down`."
        )

    def _launch(self, extent: Extent) -> "subprocess.Popen[bytes]":
        with exclusive(self.paths):
            pass  # the supervisor takes the lock itself; here it tells early and clearly that it cannot be had
        with self.paths.log("supervisor").open("wb") as output:
            return subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "ops.dev.supervisor", extent],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=project_root(),
                env={**self.environ, "ULAK_STATE_DIR": str(self.paths.state)},
                start_new_session=True,
            )

    def _await_start(
        self,
        supervisor: "subprocess.Popen[bytes]",
        wait: bool,
        deadline: float,
        watch: Callable[[StackStatus], None],
    ) -> StackStatus:
        while True:
            code = supervisor.poll()
            status = self.status()
            if code is not None:
                raise self._start_failure(code, status, supervisor.pid)
            if status.supervisor_pid == supervisor.pid:
                watch(status)
                if not wait or status.phase is Phase.RUNNING:
                    return status
            if time.monotonic() > deadline:
                raise StackError(
                    f"The stack did not come up in time; still waiting for {', '.join(status.waiting_for())}. "
                    f"Read the logs with `ulak dev logs`, stop it with `ulak dev down`."
                )
            time.sleep(_POLL_SEC)

    def _start_failure(self, code: int, status: StackStatus, pid: int) -> StackError:
        if code == ALREADY_RUNNING_EXIT:
            return AlreadyRunningError("Another `ulak dev up` is starting this stack. See `ulak dev status`.")
        if status.supervisor_pid == pid and status.error:
            return StackError(status.error)
        lines = tail(self.paths.log("supervisor"), 1)
        said = lines[0] if lines else f"it ended with {code}"
        return StackError(f"The supervisor did not start: {said} Its log: {self.paths.log('supervisor')}")

    def _end_supervisor(self, status: StackStatus) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(status.supervisor_pid, signal.SIGTERM)
            deadline = time.monotonic() + _STOP_TIMEOUT_SEC
            while status.supervised:
                if time.monotonic() > deadline:
                    os.kill(status.supervisor_pid, signal.SIGKILL)
                    deadline = time.monotonic() + _STOP_TIMEOUT_SEC
                time.sleep(_POLL_SEC)

    def _wipe(self) -> None:
        embedded.wipe(self.paths.state)
        # By name, never the whole folder: ULAK_STATE_DIR may point to one that holds more than ours.
        for name in _OWN_FOLDERS:
            shutil.rmtree(self.paths.state / name, ignore_errors=True)
        for file in (self.paths.status, self.paths.ports, self.paths.lock):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty: something that is not ours
            self.paths.state.rmdir()
