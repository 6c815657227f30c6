"""All of administration, put together: a noun a file."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from services.ingest.admin.api_keys import KeyBody, NewKeyBody, api_keys_surface
from services.ingest.admin.applications import ApplicationBody, applications_surface
from services.ingest.admin.audit_log import audit_log_surface
from services.ingest.admin.caps import CapBody, caps_surface
from services.ingest.admin.change import Administration
from services.ingest.admin.consents import ConsentsBody, consents_surface
from services.ingest.admin.devices import devices_surface
from services.ingest.admin.mappings import MappingBody, mappings_surface
from services.ingest.admin.preferences import preferences_surface
from services.ingest.admin.recipient_model import RecipientBody, SearchBody
from services.ingest.admin.recipients import recipients_surface
from services.ingest.admin.senders import SenderBody, senders_surface
from services.ingest.admin.suppressions import RemovalBody, SuppressionBody, suppressions_surface
from services.ingest.admin.template_model import (
    NewTemplateBody,
    PreviewBody,
    RollbackBody,
    TemplateBody,
    TestSendBody,
)
from services.ingest.admin.templates import templates_surface
from services.ingest.admin.types import TypeBody, types_surface
from services.ingest.endpoint import Surface
from shared.postgres.pool import Pool
from shared.profile.model import DeviceBody, PreferencesBody
from shared.profile.settings import DeviceSettings
from shared.runtime.keyring import RingSource
from shared.runtime.push_host import Resolve
from shared.runtime.settings import LocaleSettings

BODIES: Final = (
    *(ApplicationBody, CapBody, ConsentsBody, DeviceBody, KeyBody, MappingBody, NewKeyBody, NewTemplateBody),
    *(PreferencesBody, PreviewBody, RecipientBody, RemovalBody, RollbackBody, SearchBody, SenderBody, SuppressionBody),
    *(TemplateBody, TestSendBody, TypeBody),
)
"""Models that routes name by reference only: the gate has read their bodies already."""


def admin_surfaces(
    administration: Administration,
    pool: Pool,
    rings: RingSource,
    device: DeviceSettings,
    resolve: Resolve,
    defaults: LocaleSettings,
    *,
    clock: Callable[[], datetime],
) -> list[Surface]:
    return [
        api_keys_surface(administration, rings, clock=clock),
        applications_surface(administration),
        audit_log_surface(administration),
        caps_surface(administration),
        consents_surface(pool, rings, clock=clock),
        mappings_surface(administration),
        recipients_surface(administration, rings),
        preferences_surface(administration, rings),
        devices_surface(administration, rings, device, resolve),
        senders_surface(administration, rings),
        suppressions_surface(administration, rings, clock=clock),
        types_surface(administration),
        templates_surface(administration, rings, defaults, clock=clock),
    ]
