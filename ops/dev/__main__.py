"""`python -m ops.dev`: the same as `ulak dev`, without loading the other commands."""

import sys

from ops.dev.commands import app
from ops.dev.errors import StackError

if __name__ == "__main__":
    try:
        app()
    except StackError as error:
        sys.exit(str(error))
