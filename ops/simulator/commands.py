"""The command `ulak simulator`."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Annotated

import orjson
import structlog
import typer
import uvloop
from pydantic import ValidationError

from ops.simulator.receipt import ReceiptMode
from ops.simulator.settings import SimulatorSettings
from shared.runtime.fault import faults

EXIT_BAD_SETTING = 2
EXIT_NO_PORT = 3


def simulator(
    port: Annotated[int | None, typer.Option(help="Control, Twilio and OAuth over HTTP; 0 for a free port.")] = None,
    apns_port: Annotated[int | None, typer.Option(help="APNs over HTTP/2 and TLS.")] = None,
    fcm_port: Annotated[int | None, typer.Option(help="FCM over HTTP/2 and TLS.")] = None,
    smtp_port: Annotated[int | None, typer.Option(help="SMTP with STARTTLS.")] = None,
    state_dir: Annotated[Path | None, typer.Option(help="Where keys and certificates are kept.")] = None,
    receipts: Annotated[ReceiptMode | None, typer.Option(help="How receipts are sent.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
) -> None:
    """Answer as SMTP, APNs, FCM and Twilio do, on loopback only. Prints its endpoints as one JSON line when ready.

    Options win over ULAK_SIMULATOR_* variables. Ends on SIGTERM or Ctrl-C.
    Exit codes: 0 ended, 2 bad setting, 3 a port cannot be used.
    """
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    given = {
        "port": port,
        "apns_port": apns_port,
        "fcm_port": fcm_port,
        "smtp_port": smtp_port,
        "state_dir": state_dir,
        "receipt_mode": receipts,
        "seed": seed,
    }
    try:
        settings = SimulatorSettings.model_validate(
            {**SimulatorSettings().model_dump(), **{name: value for name, value in given.items() if value is not None}}
        )
    except ValidationError as error:
        for path, detail in faults(error.errors(include_url=False, include_input=False)):
            typer.echo(f"ULAK_SIMULATOR_{path.replace('.', '_').upper()}: {detail}", err=True)
        raise typer.Exit(EXIT_BAD_SETTING) from error
    try:
        uvloop.run(_run(settings))
    except OSError as error:
        typer.echo(error.strerror or str(error), err=True)
        raise typer.Exit(EXIT_NO_PORT) from error


async def _run(settings: SimulatorSettings) -> None:
    # The servers' libraries come with the extra `embedded`; the other commands do without them.
    from ops.simulator.assembly import open_simulator

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with open_simulator(settings) as endpoints:
        with contextlib.suppress(BrokenPipeError):  # whoever started it may not care for the line
            print(orjson.dumps(endpoints).decode(), flush=True)
        await ended.wait()
