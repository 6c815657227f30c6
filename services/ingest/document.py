"""`python -m services.ingest.document > docs/openapi/ingest.json`: the checked-in OpenAPI document of all surfaces."""

import sys
from typing import cast

from services.ingest.app import build_api, openapi_bytes
from services.ingest.cancel import Canceller
from services.ingest.intake import NotificationIntake
from services.ingest.otp_intake import OtpIntake
from services.ingest.rate import RateLimiter
from services.ingest.record import NotificationReader
from services.ingest.routes import general_surface, otp_surface


def document() -> bytes:
    """The document as it must stand in docs/openapi/ingest.json. The services behind the routes are never called."""
    general = general_surface(
        cast("NotificationIntake", None),
        cast("NotificationReader", None),
        cast("Canceller", None),
        cast("RateLimiter", None),
    )
    return openapi_bytes(build_api([general.router, otp_surface(cast("OtpIntake", None)).router]))


if __name__ == "__main__":
    sys.stdout.buffer.write(document())
