"""The OpenAPI document of the user's API; `make docs` writes it to docs/openapi/me.json."""

from typing import Any, cast

from services.me.app import build_api, openapi
from services.me.device_store import DeviceStore
from services.me.inbox import InboxReader
from services.me.inbox_routes import Changed, FindUser, inbox_surface
from services.me.preference_store import PreferenceStore
from services.me.report import ReportStore
from services.me.routes import device_surface, preference_surface
from services.me.stream import InboxStreams
from services.me.stream_routes import stream_surface
from services.me.unsubscribe import Withdraw, unsubscribe_surface
from shared.core.inbox import InboxStore
from shared.redis_store.stream_ticket import StreamTickets
from shared.runtime.keyring import RingSource
from shared.runtime.push_host import Resolve
from shared.wire.channel import DEFAULT_CHANNELS


def document() -> dict[str, Any]:
    """As the app describes it. The stores behind the routes are never called."""
    surfaces = [
        preference_surface(cast("PreferenceStore", None), DEFAULT_CHANNELS),
        device_surface(cast("DeviceStore", None), cast("RingSource", None), cast("Resolve", None), frozenset()),
        unsubscribe_surface(cast("RingSource", None), cast("Withdraw", None)),
        inbox_surface(
            cast("FindUser", None),
            cast("InboxReader", None),
            cast("InboxStore", None),
            cast("ReportStore", None),
            cast("Changed", None),
        ),
        stream_surface(cast("FindUser", None), cast("StreamTickets", None), cast("InboxStreams", None)),
    ]
    return openapi(build_api(surfaces))
