"""The OpenAPI document of all surfaces; `make docs` writes it to docs/openapi/ingest.json."""

from typing import Any, cast

from services.ingest.app import build_api, openapi
from services.ingest.cancel import Canceller
from services.ingest.intake import NotificationIntake
from services.ingest.otp_intake import OtpIntake
from services.ingest.rate import RateLimiter
from services.ingest.record import NotificationReader
from services.ingest.routes import general_surface, otp_surface


def document() -> dict[str, Any]:
    """As the app describes it. The services behind the routes are never called."""
    general = general_surface(
        cast("NotificationIntake", None),
        cast("NotificationReader", None),
        cast("Canceller", None),
        cast("RateLimiter", None),
    )
    return openapi(build_api([general.router, otp_surface(cast("OtpIntake", None)).router]))
