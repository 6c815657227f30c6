"""Becomes the program it is told to run, tied to the life of its parent. Run as a script by `processes.spawn`.

    python -I -S launch.py PARENT UID:GID DEATH_SIGNAL PROGRAM ARGUMENT...

A script of its own rather than a `preexec_fn`, because that runs between fork and exec in a process that may have
threads. The order matters: changing the user clears the death signal (prctl(2)), so it is set after; and a parent
that died before it was set is found by looking once more. Only the standard library: it starts in 20 ms.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main(arguments: list[str]) -> None:
    parent, user, death_signal, *command = arguments
    if user != "-":
        uid, gid = (int(part) for part in user.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(1)
    # Python ignores these two, and what is ignored stays ignored across exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is the point; the caller is our own supervisor
    except OSError as error:
        sys.exit(f"Cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
