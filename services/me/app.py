"""The ASGI application behind the gate, and its OpenAPI document."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI

from shared.profile.model import DeviceBody, PreferencesBody
from shared.web import app

_BY_HAND: Final = (PreferencesBody, DeviceBody)
"""Models that routes name by reference only: the gate has read their bodies already."""
_SECURITY: Final = {"userToken": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}


def build_api(routers: Sequence[APIRouter]) -> FastAPI:
    """The routes, which stand behind the gate."""
    return app.build_app(
        routers,
        title="Ulak user API",
        description="What a signed-in user sees and decides: preferences, devices, inbox. And one-click unsubscribing.",
    )


def openapi(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the given routes, with the bodies that routes read themselves."""
    return app.openapi(api, bodies=_BY_HAND, security_schemes=_SECURITY)
