"""SMS: accounts that take every number, and are paid for every message."""

from typing import Final

from services.workers.strategy import Strategy

SMS: Final = Strategy("SMS", {"": "twilio"})
