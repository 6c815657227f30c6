"""One-click unsubscribing: what a link takes back, and the answers to whoever holds it (RFC 8058, E8)."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from services.me import page
from services.me.endpoint import visit_of
from services.me.gate import UNSUBSCRIBE_PATH, Visit
from shared.core.unsubscribe import InvalidLinkError, Refusal, parse_link_token
from shared.runtime.keyring import RingSource
from shared.runtime.metrics import UNSUBSCRIBED
from shared.web.endpoint import documented_responses, guarded

Withdraw = Callable[[Refusal], Awaitable[bool]]
"""Appends the withdrawal to the ledger; False if that was the last word already. Raises UnavailableError."""

_PAGE: Final = {"content": {"text/html": {"schema": {"type": "string"}}}}
_FORM: Final = {
    "requestBody": {
        "required": False,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "properties": {"List-Unsubscribe": {"const": "One-Click"}}}
            }
        },
    },
    "security": [],
}
Token = Annotated[str, Path(max_length=400, description="From the List-Unsubscribe header, or the link in a message.")]


def unsubscribe_surface(rings: RingSource, withdraw: Withdraw) -> APIRouter:
    """`/u/{token}`: GET asks and changes nothing, because scanners follow links; POST takes the consent back."""
    router = APIRouter(tags=["unsubscribe"])

    @router.get(
        f"{UNSUBSCRIBE_PATH}/{{token}}",
        operation_id="askToUnsubscribe",
        summary="A page that asks whether to unsubscribe; changes nothing",
        response_class=Response,
        responses={200: {"description": "The question.", **_PAGE}, 404: {"description": "No link of ours.", **_PAGE}},
        openapi_extra={"security": []},
    )
    async def ask(request: Request, token: Token) -> Response:
        async def answer(visit: Visit) -> Response:
            language = page.language(visit.headers.get("accept-language", ""))
            return page.lost(language) if _refusal(rings, token) is None else page.asking(language)

        return await guarded(answer)(visit_of(request))

    @router.post(
        f"{UNSUBSCRIBE_PATH}/{{token}}",
        operation_id="unsubscribe",
        summary="Take the consent to marketing back, as a mailbox provider or the page does",
        response_class=Response,
        responses={
            **documented_responses({}, 413, 503),
            200: {"description": "Taken back, now or before.", **_PAGE},
            404: {"description": "No link of ours.", **_PAGE},
        },
        openapi_extra=_FORM,
    )
    async def take_back(request: Request, token: Token) -> Response:
        async def answer(visit: Visit) -> Response:
            language = page.language(visit.headers.get("accept-language", ""))
            refusal = _refusal(rings, token)
            if refusal is None:
                return page.lost(language)
            changed = await withdraw(refusal)
            UNSUBSCRIBED.labels(refusal.channel, "withdrawn" if changed else "repeated").inc()
            return page.done(language)

        return await guarded(answer)(visit_of(request))

    return router


def _refusal(rings: RingSource, token: str) -> Refusal | None:
    try:
        return parse_link_token(rings.ring, token)
    except InvalidLinkError:
        return None
