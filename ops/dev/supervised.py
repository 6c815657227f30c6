"""One process under supervision: started, asked whether it is ready, started again when it dies, stopped."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ops.dev.errors import StackError
from ops.dev.processes import Child, Command, Watchdog, spawn
from ops.dev.restart import HOPELESS_AFTER, failures_in_a_row, restart_delay_sec
from ops.dev.servers.contract import last_words_of
from ops.dev.status import ProcessState, ProcessStatus

_TICK_SEC = 0.05


@dataclass(frozen=True, slots=True)
class Target:
    """What to run and how to ask it. `check` raises or returns False while it is not ready.

    check_every_sec is for a ready one; before that it is asked at every tick.
    """

    command: Callable[[], Command]
    check: Callable[[], Awaitable[bool]]
    log: Path
    check_every_sec: float = 1.0


class Supervised:
    """Keeps one process running until `stop`. Every change of its status goes to `report`."""

    def __init__(
        self, status: ProcessStatus, target: Target, watchdog: Watchdog, report: Callable[[ProcessStatus], None]
    ) -> None:
        self.status = status
        self._target = target
        self._watchdog = watchdog
        self._report = report
        self._child: Child | None = None
        self._stopping = asyncio.Event()
        self._ready = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; call it in the main thread's loop (see `processes.spawn`)."""
        self._task = asyncio.create_task(self._keep_running(), name=self.status.name)

    async def first_ready(self, timeout_sec: float) -> None:
        """Return when it was ready once. Raises StackError when it keeps dying or takes too long."""
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), timeout_sec)
        except TimeoutError as error:
            late = f"{self.status.name} was not ready within {timeout_sec:.0f} s."
            raise StackError(self._complaint(late)) from error

    async def stop(self, grace_sec: float) -> None:
        """Ask it to end, wait, end it by force; it is not started again."""
        self._stopping.set()
        child = self._child
        if child is not None:
            child.ask_to_stop()
            deadline = time.monotonic() + grace_sec
            while child.exit_code() is None and time.monotonic() < deadline:  # noqa: ASYNC110 - children have no event
                await asyncio.sleep(_TICK_SEC)
            child.kill()
        if self._task is not None:
            self._task.cancel()  # it may be in the middle of a question to a server that is gone
            await asyncio.wait({self._task})
        if not self._ready.done():
            self._ready.cancel()
        self._set(state=ProcessState.STOPPED, pid=None, identity=None)

    def kill(self) -> None:
        """End it now, without waiting for anything."""
        if self._child is not None:
            self._child.kill()

    async def _keep_running(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._child = spawn(self.status.name, self._target.command(), self._target.log, self._watchdog)
            except StackError as error:
                # Nothing ran, so nothing is in its log; what the system said is all there is.
                self._give_up_first_start(error)
                return
            self._set(state=ProcessState.STARTING, pid=self._child.pid, identity=self._child.identity)
            await self._watch(self._child)
            if self._stopping.is_set():
                return
            failures = failures_in_a_row(failures, time.monotonic() - began)
            if failures >= HOPELESS_AFTER and not self._ready.done():
                self._give_up_first_start(StackError(self._complaint(f"{self.status.name} keeps ending at its start.")))
            self._set(state=ProcessState.BACK_OFF, pid=None, identity=None, restarts=self.status.restarts + 1)
            ended = f"{self.status.name} ended with {self._child.exit_code()}"  # negative: the signal that ended it
            print(f"{ended}; it is started again (restart {self.status.restarts})", file=sys.stderr, flush=True)
            await self._pause(restart_delay_sec(failures))

    async def _watch(self, child: Child) -> None:
        """Return when it has ended, not before."""
        next_check = 0.0
        while child.exit_code() is None:
            if time.monotonic() >= next_check:
                ready = await self._ask()
                if child.exit_code() is not None:
                    return
                was_ready = self.status.state in {ProcessState.READY, ProcessState.NOT_READY}
                if ready:
                    self._set(state=ProcessState.READY)
                    if not self._ready.done():
                        self._ready.set_result(None)
                elif was_ready:
                    self._set(state=ProcessState.NOT_READY)
                next_check = time.monotonic() + (self._target.check_every_sec if ready else 0.0)
            await asyncio.sleep(_TICK_SEC)

    async def _ask(self) -> bool:
        try:
            return await asyncio.wait_for(self._target.check(), 5)
        except Exception:  # noqa: BLE001 - whatever a client raises while its server cannot answer means "not ready"
            return False

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    def _give_up_first_start(self, error: StackError) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # seen: a caller that stopped waiting must not be warned about it

    def _complaint(self, sentence: str) -> str:
        return f"{sentence} Its last words: {last_words_of(self._target.log)} Read {self._target.log}"

    def _set(self, **changes: object) -> None:
        changed = replace(self.status, **changes)  # type: ignore[arg-type]  # the fields' own types are checked below
        if changed != self.status:
            self.status = changed
            self._report(changed)
