"""`/internal/v1/recipients/{userId}/preferences`: a user's words, told by a back office; the rules are the user API's.

A change names only what changes, so it needs no If-Match.
"""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from services.ingest.admin.body import valid_body
from services.ingest.admin.change import Administration
from services.ingest.admin.recipients import USER_PATH, UserId, no_recipient
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import Call
from shared.profile.model import PreferencesAnswer, PreferencesBody
from shared.profile.preference import Told, told
from shared.profile.preference_record import read_preferences, write_preferences
from shared.redis_store.invalidation import Kind
from shared.runtime.keyring import RingSource
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.problem import Problem, RefusedError
from shared.web.response import json_response
from shared.wire.channel import DEFAULT_CHANNELS

PATH: Final = f"{USER_PATH}/preferences"
KIND: Final = "preferences"


def preferences_surface(administration: Administration, rings: RingSource) -> Surface:
    router = APIRouter(tags=["administration"])

    async def shown(user_id: str) -> Response:
        async with administration.reading() as connection:
            found = await read_preferences(connection, rings.ring, DEFAULT_CHANNELS, user_id)
        if found is None:
            raise RefusedError(no_recipient())
        return json_response(found.body(DEFAULT_CHANNELS))

    @router.get(
        PATH,
        operation_id="getRecipientPreferences",
        summary="What is sent to a user on which channel, and what of it they said themselves",
        responses=responses({200: PreferencesAnswer}, 404, 422),
    )
    async def get(request: Request, user_id: UserId) -> Response:
        async def answer(_call: Call) -> Response:
            return await shown(user_id)

        return await guarded(answer)(call_of(request))

    @router.put(
        PATH,
        operation_id="putRecipientPreferences",
        summary="Switch channels on and off; only what is named changes, and an unknown user is created",
        responses=responses({200: PreferencesAnswer}, *BODY_PROBLEMS, 404),
        openapi_extra=documented(PreferencesBody),
    )
    async def put(request: Request, user_id: UserId) -> Response:
        async def answer(call: Call) -> Response:
            said = told(valid_body(PreferencesBody, call), DEFAULT_CHANNELS.names)
            if isinstance(said, Problem):
                raise RefusedError(said)
            async with administration.changing(call) as change:
                number = await write_preferences(change.connection, user_id, said)
                await change.audit("updated", KIND, str(number), {"fields": _named(said)})
            await administration.tell(Kind.PREFERENCES, [number])
            return await shown(user_id)

        return await guarded(answer)(call_of(request))

    return Surface(router, {})


def _named(said: Told) -> list[str]:
    """What was spoken of, without what was said."""
    return [f"{category}.{channel}" for category, channel in said.by_category] + [
        f"types.{name}.{channel}" for name, channel in said.by_type
    ]
