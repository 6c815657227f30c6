"""The user API's calls. Each reads the gate's `Call`, asks one store, and answers.

Bodies are parsed here and not by FastAPI: the gate has read them already. The models still document every call.
"""

from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from services.me.device_store import DeviceStore
from services.me.endpoint import call_of, responses
from services.me.gate import DEVICES_PATH, PREFERENCES_PATH, Call
from services.me.preference_store import PreferenceStore
from shared.profile import problem
from shared.profile.device import device_body, device_of, require_reachable
from shared.profile.model import DeviceAnswer, DeviceBody, DevicesAnswer, PreferencesAnswer, PreferencesBody
from shared.profile.preference import told
from shared.runtime.keyring import RingSource
from shared.runtime.push_host import Resolve
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded, json_body, routed
from shared.web.invalid import invalid_fields
from shared.web.problem import Problem, RefusedError
from shared.web.response import json_response
from shared.wire.channel import Channels

B = TypeVar("B", bound=BaseModel)


def preference_surface(store: PreferenceStore, channels: Channels) -> APIRouter:
    """`/api/v1/me/notification-preferences`."""
    router = APIRouter(tags=["preferences"])

    async def show(call: Call) -> Response:
        return json_response((await store.read(call.user)).body(channels))

    async def change(call: Call) -> Response:
        said = told(_parsed(PreferencesBody, call), channels.names)
        if isinstance(said, Problem):
            raise RefusedError(said)
        await store.write(call.user, said)
        return await show(call)

    router.get(
        PREFERENCES_PATH,
        operation_id="getPreferences",
        summary="What is sent to this user on which channel, and what of it they said themselves",
        responses=responses({200: PreferencesAnswer}),
    )(routed(show))
    router.put(
        PREFERENCES_PATH,
        operation_id="putPreferences",
        summary="Switch channels on and off; only what is named changes",
        responses=responses({200: PreferencesAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(PreferencesBody),
    )(routed(change))
    return router


def device_surface(store: DeviceStore, rings: RingSource, resolve: Resolve, trusted_hosts: frozenset[str]) -> APIRouter:
    """`/api/v1/me/devices` and below."""
    router = APIRouter(tags=["devices"])

    async def register(call: Call) -> Response:
        device = device_of(_parsed(DeviceBody, call), trusted_hosts)
        if isinstance(device, Problem):
            raise RefusedError(device)
        await require_reachable(device, trusted_hosts, resolve)
        row = await store.put(call.user, device)
        return json_response(device_body(row, rings.ring), 201 if row["created"] else 200)

    async def show(call: Call) -> Response:
        return json_response({"devices": [device_body(row, rings.ring) for row in await store.all(call.user)]})

    router.post(
        DEVICES_PATH,
        operation_id="registerDevice",
        summary="Register a device, or tell that it is still there",
        status_code=201,
        responses=responses({201: DeviceAnswer, 200: DeviceAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(DeviceBody),
    )(routed(register))
    router.get(
        DEVICES_PATH,
        operation_id="listDevices",
        summary="The user's devices, last seen first",
        responses=responses({200: DevicesAnswer}),
    )(routed(show))

    @router.delete(
        f"{DEVICES_PATH}/{{deviceId}}",
        operation_id="removeDevice",
        summary="Forget a device: what an app does when its user signs out",
        status_code=204,
        responses=responses({}, 404),
    )
    async def remove(request: Request, device_id: Annotated[str, Path(alias="deviceId", max_length=128)]) -> Response:
        async def answer(call: Call) -> Response:
            if not await store.remove(call.user, device_id):
                raise RefusedError(
                    problem.DEVICE_NOT_FOUND("This user has no such device. GET /api/v1/me/devices lists them.")
                )
            return Response(status_code=204)

        return await guarded(answer)(call_of(request))

    return router


def _parsed(model: type[B], call: Call) -> B:
    try:
        return model.model_validate(json_body(call))
    except ValidationError as error:
        raise RefusedError(invalid_fields(error)) from error
