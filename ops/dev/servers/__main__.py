"""`python -m ops.dev.servers -- COMMAND...`: run a command on throw-away servers and end with its exit code.

The command finds them by their ULAK_* settings. A server whose setting is already there is external and not started.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import NoReturn

from ops.dev.environment import SERVER_SETTINGS, external_servers
from ops.dev.errors import StackError
from ops.dev.servers import ALL, running


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def main(arguments: list[str]) -> int:
    command = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not command:
        print("Usage: python -m ops.dev.servers -- COMMAND [ARGUMENT...]", file=sys.stderr)
        return 2
    # Without this a TERM would end us before the servers and their data are removed.
    signal.signal(signal.SIGTERM, _leave)
    wanted = ALL - external_servers(os.environ, {}).keys()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="ulak-servers-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)  # PostgreSQL may run as an account of its own, see servers/unprivileged.py
        started = stack.enter_context(running(folder, wanted, durable=False, say=_say))
        settings = {SERVER_SETTINGS[name]: address for name, address in started.addresses.items()}
        program = stack.enter_context(
            subprocess.Popen(command, env={**os.environ, **settings})  # noqa: S603 - running it is what we are for
        )
        stack.callback(program.terminate)
        return _wait(program)


def _wait(program: "subprocess.Popen[bytes]") -> int:
    while True:
        try:
            code = program.wait()
        except KeyboardInterrupt:
            continue  # the terminal told the command too; it decides when it is done
        return code if code >= 0 else 128 - code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except FileNotFoundError as error:
        sys.exit(f"There is no program {error.filename}.")
    except StackError as error:
        sys.exit(str(error))
