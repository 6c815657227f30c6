"""The ASGI application of one surface, and its OpenAPI document."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel

from services.ingest.admin.imports.surface import KINDS
from services.ingest.admin.surface import BODIES
from services.ingest.bulk_cancel_model import BulkCancelRequest
from services.ingest.email_model import EmailBody
from services.ingest.model import BatchRequest, NotificationRequest, OtpRequest
from shared.web import app

_LINES: Final[tuple[type[BaseModel], ...]] = tuple(kind.line for kind in KINDS.values())
_BY_HAND: Final[tuple[type[BaseModel], ...]] = (
    NotificationRequest,
    BatchRequest,
    BulkCancelRequest,
    EmailBody,
    OtpRequest,
    *BODIES,
    *_LINES,
)
"""Models that routes name by reference only (routes.py says why)."""
_SECURITY: Final = {"apiKey": {"type": "http", "scheme": "bearer", "description": "`ulak api-keys create`"}}


def build_api(routers: Sequence[APIRouter]) -> FastAPI:
    """The routes, which stand behind the gate."""
    return app.build_app(
        routers,
        title="Ulak internal API",
        description="Accepts notifications, e-mails and one-time passwords, tells what became of them, and administers "
        "what may be said to whom.",
    )


def openapi(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the given routes, with the bodies that routes read themselves."""
    return app.openapi(api, bodies=_BY_HAND, security_schemes=_SECURITY)
