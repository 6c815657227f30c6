"""StackError is what a person reads when the embedded stack cannot start or stop.

StackError
├── AlreadyRunningError   another supervisor holds this state folder
└── NotRunningError       there is nothing to show, follow or stop
"""

import errno

from ops.cli.errors import CommandError


class StackError(CommandError):
    """One sentence that names what is missing and one that says what to do."""


class AlreadyRunningError(StackError):
    """Another supervisor works on the same state folder."""


class NotRunningError(StackError):
    """The stack of this state folder is down."""


def explain_os_error(error: OSError, what: str) -> StackError:
    """Turn the operating system's refusal into a sentence with its remedy.

    `what` completes "Cannot ..." (for instance "write the stack's state").
    """
    place = f" ({error.filename})" if error.filename else ""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            remedy = "The disk is full: free some space, or move the folders with ULAK_STATE_DIR and ULAK_CACHE_DIR."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            remedy = "Permission is missing: make it writable, or choose others with ULAK_STATE_DIR and ULAK_CACHE_DIR."
        case errno.ENOTDIR | errno.EEXIST | errno.ENAMETOOLONG:
            remedy = "Something else is in its place: choose another with ULAK_STATE_DIR or ULAK_CACHE_DIR."
        case errno.EADDRINUSE:
            remedy = "The port was taken by another program meanwhile: run the command again, it picks another one."
        case errno.EMFILE | errno.ENFILE:
            remedy = "Too many files are open: raise the limit with `ulimit -n 4096`."
        case _:
            remedy = f"The system says: {error.strerror or error}."
    return StackError(f"Cannot {what}{place}. {remedy}")
