"""E-mail: one relay over kept connections."""

from typing import Final

from services.workers.strategy import Strategy, first_of

EMAIL: Final = Strategy("EMAIL", first_of("smtp"))
