"""The process behind `ulak dev up`: prepares, starts, watches and stops everything. One for each state folder.

Run as `python -m ops.dev.supervisor [all|servers|model-a]`; it stays in the foreground, `ulak dev up` puts it behind.
"""

import asyncio
import fcntl
import json
import os
import signal
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from ops.dev import servers as embedded
from ops.dev.environment import (
    exported_environment,
    external_servers,
    provider_environment,
    service_environment,
    shared_environment,
)
from ops.dev.errors import AlreadyRunningError, StackError, explain_os_error
from ops.dev.files import secret_in
from ops.dev.health import is_ready
from ops.dev.logfile import bound
from ops.dev.paths import StackPaths, project_root, state_folder
from ops.dev.plan import Extent, Plan, ServiceSpec, SetupStep, plan_for, read_api_key
from ops.dev.ports import reserve_ports
from ops.dev.processes import Command, Watchdog, end_left_over, identity_of, run_to_end
from ops.dev.servers.contract import Server, last_words_of
from ops.dev.status import Kind, Phase, ProcessStatus, StackStatus, read_status, write_status
from ops.dev.supervised import Supervised, Target
from ops.dev.together import together

ALREADY_RUNNING_EXIT: Final = 75  # EX_TEMPFAIL of sysexits.h
SERVICE_GRACE_SEC: Final = 15.0
READY_TIMEOUT_SEC: Final = 60.0
_SERVER_CHECK_EVERY_SEC: Final = 3.0
_LOG_CHECK_EVERY_SEC: Final = 10.0


@contextmanager
def exclusive(paths: StackPaths) -> Iterator[None]:
    """Hold the state folder's lock; the kernel frees it with the process. Raises AlreadyRunningError."""
    try:
        paths.logs.mkdir(parents=True, exist_ok=True)
        lock = paths.lock.open("w")
    except OSError as error:
        raise explain_os_error(error, "keep the stack's state") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunningError(
                f"Another supervisor is at work in {paths.state}. "
                "See `ulak dev status`, or stop it with `ulak dev down`."
            ) from None
        yield


class Supervisor:
    """One run of one plan. `run` returns after everything is stopped."""

    def __init__(self, paths: StackPaths, plan: Plan, environ: Mapping[str, str], watchdog: Watchdog) -> None:
        self._paths = paths
        self._plan = plan
        self._environ = environ
        self._watchdog = watchdog
        self._stop = asyncio.Event()
        self._supervised: dict[str, Supervised] = {}
        self._status = StackStatus(
            phase=Phase.STARTING, supervisor_pid=os.getpid(), supervisor_identity=identity_of(os.getpid()) or ""
        )

    async def run(self) -> None:
        """Start everything, watch it until a TERM or INT, stop it in order. Raises StackError when it cannot start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop.set)
        failure = ""
        try:
            await self._unless_stopped(self._start())
            if not self._stop.is_set():
                self._update(phase=Phase.RUNNING, step="")
            await self._watch_logs()
        except StackError as error:
            failure = str(error)
            raise
        except Exception as error:
            log = self._paths.log("supervisor")
            failure = f"The supervisor failed with {type(error).__name__}. Please report it with {log}."
            raise
        finally:
            await self._shut_down()
            self._update(phase=Phase.FAILED if failure else Phase.DOWN, step="", error=failure)

    async def _unless_stopped(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if task.done():
            task.result()
        else:
            task.cancel()
            await asyncio.wait({task})

    async def _start(self) -> None:
        outside = external_servers(self._environ, read_status(self._paths.status).environment)
        own = [port for name in sorted(self._plan.servers) for port in embedded.PORTS[name]]
        ports = reserve_ports(self._paths.ports, [*own, *self._plan.own_ports], seed=str(self._paths.state))
        started = embedded.build(self._plan.servers, self._paths, ports, self._environ, say=self._say)
        addresses = {**outside, **{server.name: server.url for server in started}}
        shared = shared_environment(
            self._environ,
            self._plan,
            addresses,
            ports,
            self._paths,
            user_token_secret=secret_in(self._paths.user_token_secret),
        )
        self._declare(started, ports)
        self._update(environment=self._exported(addresses, ports, shared))

        self._say("Starting servers")
        simulator = self._plan.simulator
        if simulator is not None:
            self._begin_service(simulator, shared, ports)
        await together(self._start_server(server) for server in started)
        await self._run_steps(shared)
        if simulator is not None:
            await self._supervised[simulator.name].first_ready(READY_TIMEOUT_SEC)
            shared |= self._providers()
        self._update(environment=self._exported(addresses, ports, shared))

        self._say("Starting services")
        for spec in self._plan.services:
            self._begin_service(spec, shared, ports)
        # One that does not come up is reported and tried again; the others go on, so that it can be mended meanwhile.
        results = await asyncio.gather(
            *(self._supervised[spec.name].first_ready(READY_TIMEOUT_SEC) for spec in self._plan.own_processes),
            return_exceptions=True,
        )
        complaints = [str(result) for result in results if isinstance(result, StackError)]
        self._update(error=" ".join(complaints))

    def _exported(
        self, addresses: Mapping[str, str], ports: Mapping[str, int], shared: Mapping[str, str]
    ) -> dict[str, str]:
        return exported_environment(self._plan, addresses, ports, read_api_key(self._paths), shared)

    def _providers(self) -> dict[str, str]:
        """The providers' settings, from what the simulator wrote before it was ready."""
        endpoints = json.loads((self._paths.simulator / "endpoints.json").read_text(encoding="utf-8"))
        token = Path(endpoints["twilioAuthTokenFile"]).read_text(encoding="utf-8").strip()
        return provider_environment(endpoints, token)

    def _declare(self, started: Sequence[Server], ports: Mapping[str, int]) -> None:
        """List all processes from the first moment, so that a reader sees what is still to come."""
        processes = [
            ProcessStatus(server.name, Kind.SERVER, str(self._paths.log(server.name)), url=without_password(server.url))
            for server in started
        ]
        processes += [
            ProcessStatus(
                spec.name,
                spec.kind,
                str(self._paths.log(spec.name)),
                url=f"http://127.0.0.1:{ports[spec.name]}" if spec.serves_http else None,
            )
            for spec in self._plan.own_processes
        ]
        self._update(processes=tuple(processes))

    async def _start_server(self, server: Server) -> None:
        await server.prepare(self._watchdog)

        async def check() -> bool:
            await server.check()
            return True

        target = Target(server.command, check, self._paths.log(server.name), _SERVER_CHECK_EVERY_SEC)
        await self._begin(server.name, target).first_ready(embedded.START_TIMEOUT_SEC)
        self._say(f"{server.name} is ready")

    def _begin_service(self, spec: ServiceSpec, shared: Mapping[str, str], ports: Mapping[str, int]) -> None:
        command = Command(spec.argv, project_root(), service_environment(shared, spec, ports))
        check = partial(is_ready, ports[spec.health_port_name])
        self._begin(spec.name, Target(lambda: command, check, self._paths.log(spec.name)))

    def _begin(self, name: str, target: Target) -> Supervised:
        status = next(item for item in self._status.processes if item.name == name)
        process = Supervised(status, target, self._watchdog, self._report)
        self._supervised[name] = process
        process.start()
        return process

    async def _run_steps(self, shared: Mapping[str, str]) -> None:
        done = {step.name: asyncio.Event() for step in self._plan.steps}

        async def run(step: SetupStep) -> None:
            for name in step.after:
                await done[name].wait()
            if step.needed(self._paths, shared):
                self._say(f"Set-up: {step.name}")
                await self._run_step(step, shared)
            done[step.name].set()

        await together(run(step) for step in self._plan.steps)

    async def _run_step(self, step: SetupStep, shared: Mapping[str, str]) -> None:
        log = self._paths.log(f"setup-{step.name}")
        output = step.output(self._paths) if step.output else None
        command = Command(step.argv, project_root(), shared)
        if await run_to_end(f"set-up {step.name}", command, log, self._watchdog, output) != 0:
            asked = " ".join(step.argv[1:])
            raise StackError(f"The set-up step `python {asked}` failed: {last_words_of(log)} Its log: {log}")

    async def _watch_logs(self) -> None:
        while not self._stop.is_set():
            for process in self._status.processes:
                try:
                    bound(Path(process.log))
                except OSError as error:
                    print(explain_os_error(error, "keep the logs short"), file=sys.stderr, flush=True)
            try:
                await asyncio.wait_for(self._stop.wait(), _LOG_CHECK_EVERY_SEC)
            except TimeoutError:
                continue

    async def _shut_down(self) -> None:
        """Services first, so that they can finish what they have begun; then the simulator; the servers last."""
        self._update(phase=Phase.STOPPING, step="Stopping")
        for kind, grace in (
            (Kind.SERVICE, SERVICE_GRACE_SEC),
            (Kind.SIMULATOR, SERVICE_GRACE_SEC),
            (Kind.SERVER, embedded.STOP_GRACE_SEC),
        ):
            processes = [item for item in self._supervised.values() if item.status.kind is kind]
            await asyncio.gather(*(item.stop(grace) for item in processes))

    def _report(self, process: ProcessStatus) -> None:
        self._status = self._status.with_process(process)
        self._write()

    def _say(self, text: str) -> None:
        self._update(step=text)

    def _update(self, **changes: object) -> None:
        self._status = replace(self._status, **changes)  # type: ignore[arg-type]  # callers name the fields
        self._write()

    def _write(self) -> None:
        try:
            write_status(self._paths.status, self._status)
        except OSError as error:
            # A full disk must not end the supervision; the commands see the last status that could be written.
            print(explain_os_error(error, "write the stack's status"), file=sys.stderr, flush=True)


def without_password(url: str) -> str:
    """The address for reading: what stands before the @ stays out of `status`."""
    scheme, separator, rest = url.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]


def end_left_overs(status: StackStatus) -> list[str]:
    """End what a supervisor that was killed may have left; the names of what was still there."""
    return [item.name for item in status.processes if item.pid and end_left_over(item.pid, item.identity or "")]


def main(arguments: Sequence[str]) -> int:
    paths = StackPaths(state_folder(os.environ, project_root(), Path.cwd()))
    try:
        with exclusive(paths):
            previous = read_status(paths.status)
            end_left_overs(previous)
            outside = external_servers(os.environ, previous.environment)
            plan = plan_for(embedded.ALL - outside.keys(), Extent(arguments[0]) if arguments else Extent.ALL)
            return supervise(paths, plan, os.environ)
    except AlreadyRunningError as error:
        print(error, file=sys.stderr)
        return ALREADY_RUNNING_EXIT
    except StackError as error:
        print(error, file=sys.stderr)
        return 1


def supervise(paths: StackPaths, plan: Plan, environ: Mapping[str, str]) -> int:
    """Run a plan to its end in this process. The caller holds the lock."""

    async def run() -> None:
        await Supervisor(paths, plan, environ, watchdog).run()

    with Watchdog.open() as watchdog:
        asyncio.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
