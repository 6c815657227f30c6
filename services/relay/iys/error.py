"""Why the registry could not be asked now."""


class RegistryError(Exception):
    """Unreachable, busy, or it does not let us in. Nothing is wrong with the consents: they are told later.

    retry_after_sec: how long it asks us to rest; None: it did not say. Messages hold no address.
    """

    def __init__(self, detail: str, *, retry_after_sec: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after_sec = retry_after_sec
