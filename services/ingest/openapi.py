"""The OpenAPI document of all surfaces; `make docs` writes it to docs/openapi/ingest.json."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from services.ingest.admin.change import Administration
from services.ingest.admin.imports.importer import Importer
from services.ingest.admin.imports.lines import Limits
from services.ingest.admin.imports.surface import imports_surface
from services.ingest.admin.surface import admin_surfaces
from services.ingest.app import build_api, openapi
from services.ingest.bulk_cancel import BulkCanceller, bulk_cancel_surface
from services.ingest.cancel import Canceller
from services.ingest.dry_run import DryRun, dry_run_surface
from services.ingest.email_intake import EmailIntake
from services.ingest.email_record import EmailReader
from services.ingest.email_routes import email_surface
from services.ingest.intake import NotificationIntake
from services.ingest.otp_intake import OtpIntake
from services.ingest.record import NotificationReader
from services.ingest.routes import general_surface, otp_surface
from shared.postgres.pool import Pool
from shared.profile.settings import DeviceSettings
from shared.runtime.keyring import RingSource
from shared.runtime.push_host import Resolve
from shared.runtime.settings import LocaleSettings
from shared.web.rate import RateLimiter


def document() -> dict[str, Any]:
    """As the app describes it. The services behind the routes are never called."""
    general = general_surface(
        cast("NotificationIntake", None),
        cast("NotificationReader", None),
        cast("Canceller", None),
        cast("RateLimiter", None),
    )
    emails = email_surface(cast("EmailIntake", None), cast("EmailReader", None))
    dry_run = dry_run_surface(cast("DryRun", None))
    bulk_cancel = bulk_cancel_surface(cast("BulkCanceller", None))
    codes = otp_surface(cast("OtpIntake", None))
    administration = admin_surfaces(
        cast("Administration", None),
        cast("Pool", None),
        cast("RingSource", None),
        cast("DeviceSettings", None),
        cast("Resolve", None),
        cast("LocaleSettings", None),
        clock=cast("Callable[[], datetime]", None),
    )
    imports = imports_surface(cast("Importer", None), cast("Limits", None))
    surfaces = [general, bulk_cancel, dry_run, emails, codes, *administration, imports]
    return openapi(build_api([surface.router for surface in surfaces]))
