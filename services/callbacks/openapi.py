"""The OpenAPI document of the callback surface; `make docs` writes it to docs/openapi/callbacks.json."""

from typing import Any

from services.callbacks.app import create_app
from services.callbacks.receiver import Incoming


def document() -> dict[str, Any]:
    """As the app itself describes it; nothing is configured or connected for it."""

    async def take(_name: str, _incoming: Incoming) -> None:
        """Only described, never called."""

    return create_app(take).openapi()
