"""How a command says what went wrong."""


class CommandError(Exception):
    """One sentence that says what is wrong and what to do; `ulak` prints it and exits with 1.

    CommandError
    +-- RefusedError    the internal API refused; code is its problem's
    """


class RefusedError(CommandError):
    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
