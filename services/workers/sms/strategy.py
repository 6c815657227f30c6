"""SMS: one provider, which is paid for every message."""

from typing import Final

from services.workers.strategy import Strategy, first_of

SMS: Final = Strategy("SMS", first_of("twilio"))
