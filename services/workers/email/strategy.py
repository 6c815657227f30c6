"""E-mail: accounts that take every address."""

from typing import Final

from services.workers.strategy import Strategy

EMAIL: Final = Strategy("EMAIL", {"": "smtp"})
