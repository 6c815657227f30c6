"""What is measured of one source's e-mail: how long the oldest due row waits."""

from services.relay.email.store import EmailStore
from shared.runtime.logs import get_logger
from shared.runtime.metrics import EMAIL_OLDEST

_log = get_logger(__name__)


class EmailGauges:
    """sends: whether this process has a provider; without one, rows that wait for it are told of."""

    def __init__(self, source: str, store: EmailStore, *, sends: bool) -> None:
        self._source = source
        self._store = store
        self._sends = sends

    async def round(self) -> bool:
        """Measure once; never more at once."""
        age_sec = await self._store.oldest_sec()
        EMAIL_OLDEST.labels(self._source).set(age_sec or 0.0)
        if age_sec is not None and not self._sends:
            _log.error(
                "email_without_provider",
                source=self._source,
                effect="e-mails of model A wait in their table",
                remedy="set the ULAK_* settings of an e-mail provider (docs/settings.md)",
            )
        return False
