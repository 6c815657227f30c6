"""Ends what a supervisor left behind. Run as a script by `processes.Watchdog`; the standard library only.

Reads lines from its standard input: `+GROUP SIGNAL` for a process group that lives, `-GROUP` for one that has ended.
When the input ends, its supervisor is gone, however it went (SIGKILL too); what is still listed is ended: first with
its own signal, then, two seconds later, with SIGKILL. It does what the parent-death signal does where that does not
exist (macOS), and what it does not do anywhere: ends grandchildren.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable

_GRACE_SEC = 2.0


def still_listed(lines: Iterable[str]) -> dict[int, int]:
    """Process groups and the signal that ends each, after all lines were read."""
    groups: dict[int, int] = {}
    for line in lines:
        if line.startswith("+"):
            group, number = line[1:].split()
            groups[int(group)] = int(number)
        elif line.startswith("-"):
            groups.pop(int(line[1:]), None)
    return groups


def _send(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def main() -> None:
    # The terminal's Ctrl-C and a TERM to everybody must not end the one that cleans up after the others.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    left = still_listed(sys.stdin)
    alive = [group for group, number in left.items() if _send(group, number)]
    deadline = time.monotonic() + _GRACE_SEC
    while alive and time.monotonic() < deadline:
        time.sleep(0.05)
        alive = [group for group in alive if _send(group, 0)]
    for group in alive:
        _send(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
