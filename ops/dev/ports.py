"""Free ports that stay the same from one start to the next."""

import hashlib
import json
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ops.dev.errors import StackError, explain_os_error
from ops.dev.files import write_private

# Below the ephemeral ranges of Linux (32768-60999) and macOS (49152-65535): an outgoing connection of another
# program must not sit on a port between the moment it is chosen and the moment its server binds it.
FIRST_PORT = 20_000
LAST_PORT = 32_767
_ATTEMPTS = 500


def candidate(seed: str, name: str, attempt: int) -> int:
    """The port to try for `name`; seeds (state folders) spread over the range, so clones rarely want the same one."""
    digest = hashlib.sha256(f"{seed}\0{name}\0{attempt}".encode()).digest()
    return FIRST_PORT + int.from_bytes(digest[:4]) % (LAST_PORT - FIRST_PORT + 1)


def choose_ports(
    names: Iterable[str], kept: Mapping[str, int], seed: str, is_free: Callable[[int], bool]
) -> dict[str, int]:
    """A distinct free port for every name: the kept one where it is still free, else the first free candidate.

    Raises StackError when nothing is free, which means that loopback itself is unusable.
    """
    chosen: dict[str, int] = {}
    for name in names:
        tries = (kept.get(name, 0), *(candidate(seed, name, attempt) for attempt in range(_ATTEMPTS)))
        taken = set(chosen.values())
        port = next((port for port in tries if port and port not in taken and is_free(port)), None)
        if port is None:
            raise StackError(
                f"No free port for {name} on 127.0.0.1 between {FIRST_PORT} and {LAST_PORT}. "
                "Stop other programs that listen there, or check that the loopback interface is up."
            )
        chosen[name] = port
    return chosen


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:port now. Connections that still wait to close do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def load_ports(path: Path) -> dict[str, int]:
    """The ports of the last run; nothing when there was none or the file is unreadable (they are only a preference)."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(stored, dict):
        return {}
    return {name: port for name, port in stored.items() if isinstance(port, int) and 0 < port < 65_536}


def reserve_ports(path: Path, names: Iterable[str], seed: str) -> dict[str, int]:
    """Choose ports and remember them in `path`, together with those of names that are not asked for this time."""
    kept = load_ports(path)
    chosen = choose_ports(names, kept, seed, is_free)
    try:
        write_private(path, json.dumps({**kept, **chosen}, indent=2, sort_keys=True))
    except OSError as error:
        raise explain_os_error(error, "write the stack's ports") from error
    return chosen
