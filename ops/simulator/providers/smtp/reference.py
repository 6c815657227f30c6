"""Where a mail carries the sender's reference."""

from typing import Final

REFERENCE_HEADER: Final = "X-Ulak-Reference"
