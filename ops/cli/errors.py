"""How a command says what went wrong."""


class CommandError(Exception):
    """One sentence that says what is wrong and what to do; `ulak` prints it and exits with 1."""
