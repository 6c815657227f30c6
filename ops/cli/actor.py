"""Who the audit log names as the author of what a command changes."""

import getpass

from shared.postgres.audit_log import Actor


def operator() -> Actor:
    """The login of whoever runs the command."""
    try:
        return Actor(f"operator {getpass.getuser()}")
    except (KeyError, OSError):  # no such user in the password database, as in some containers
        return Actor("operator")
