"""What the relay's loops meet and are made for: logged without a traceback, tried again with back-off."""

from typing import Final

from services.relay.iys.error import RegistryError
from shared.kafka.error import MessagingError
from shared.postgres.errors import UNAVAILABLE, PostgresError


class BrokerUnreachableError(Exception):
    """Kafka does not answer. Rows are not even claimed: a long outage must not be one long transaction."""


EXPECTED: Final[tuple[type[Exception], ...]] = (
    *(BrokerUnreachableError, RegistryError, MessagingError, PostgresError),
    *UNAVAILABLE,
)
