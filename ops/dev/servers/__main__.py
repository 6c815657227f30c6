"""Run a command with throw-away servers: `python -m ops.dev.servers -- pytest`.

The command finds them by the three server settings; a server whose setting is already there is not started. Its exit
code is the command's. `make test`, `make bench` and CI go through this, so that parallel test processes share servers.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ops.dev.errors import StackError
from ops.dev.servers import running

_SETTINGS = {
    "postgres": "ULAK_POSTGRES_DSN",
    "valkey": "ULAK_REDIS_URL",
    "kafka": "ULAK_KAFKA_BOOTSTRAP_SERVERS",
}


def main(arguments: list[str]) -> int:
    command = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not command:
        print("usage: python -m ops.dev.servers -- COMMAND [ARGUMENT...]", file=sys.stderr)
        return 2
    missing = {name for name, setting in _SETTINGS.items() if not os.environ.get(setting)}
    with (
        tempfile.TemporaryDirectory(prefix="ulak-servers-") as folder,
        running(Path(folder), missing, durable=False, say=print) as servers,
    ):
        found = {_SETTINGS[name]: servers.addresses[name] for name in missing}
        return subprocess.run(command, env={**os.environ, **found}, check=False).returncode  # noqa: S603  it is ours


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except StackError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
