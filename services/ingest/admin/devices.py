"""`/internal/v1/recipients/{userId}/devices`: a user's devices, kept by a back office; the rules are the user API's."""

from typing import Annotated, Final

import asyncpg
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from services.ingest.admin.body import valid_body
from services.ingest.admin.change import Administration, Change
from services.ingest.admin.recipients import USER_PATH, UserId, no_recipient
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import Call
from shared.core.identifier import DEVICE, public_id
from shared.profile import problem
from shared.profile.device import device_body, device_of, require_reachable
from shared.profile.device_record import devices_of, put_device, remove_device
from shared.profile.model import DeviceAnswer, DeviceBody, DevicesAnswer
from shared.profile.settings import DeviceSettings
from shared.runtime.keyring import RingSource
from shared.runtime.push_host import Resolve
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.model import PRINTABLE
from shared.web.problem import Problem, RefusedError
from shared.web.response import json_response

PATH: Final = f"{USER_PATH}/devices"
KIND: Final = "device"

DeviceId = Annotated[str, Path(alias="deviceId", min_length=1, max_length=128, pattern=PRINTABLE)]


def devices_surface(
    administration: Administration, rings: RingSource, settings: DeviceSettings, resolve: Resolve
) -> Surface:
    router = APIRouter(tags=["administration"])

    @router.get(
        PATH,
        operation_id="listRecipientDevices",
        summary="A user's devices, last seen first, tokens masked",
        responses=responses({200: DevicesAnswer}, 404, 422),
    )
    async def show(request: Request, user_id: UserId) -> Response:
        async def answer(_call: Call) -> Response:
            async with administration.reading() as connection:
                found = await devices_of(connection, user_id)
            if found is None:
                raise RefusedError(no_recipient())
            return json_response({"devices": [device_body(row, rings.ring) for row in found]})

        return await guarded(answer)(call_of(request))

    @router.post(
        PATH,
        operation_id="registerRecipientDevice",
        summary="Register a device, or tell that it is still there; an unknown user is created",
        status_code=201,
        responses=responses({201: DeviceAnswer, 200: DeviceAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(DeviceBody),
    )
    async def register(request: Request, user_id: UserId) -> Response:
        async def answer(call: Call) -> Response:
            device = device_of(valid_body(DeviceBody, call), settings.push_hosts)
            if isinstance(device, Problem):
                raise RefusedError(device)
            await require_reachable(device, settings.push_hosts, resolve)
            async with administration.changing(call) as change:
                row = await put_device(
                    change.connection, rings.ring, user_id, device, max_devices=settings.max_per_user
                )
                await _audit(change, "created" if row["created"] else "updated", row)
            return json_response(device_body(row, rings.ring), 201 if row["created"] else 200)

        return await guarded(answer)(call_of(request))

    @router.delete(
        f"{PATH}/{{deviceId}}",
        operation_id="removeRecipientDevice",
        summary="Forget a device, by the app's name of it or ours",
        status_code=204,
        responses=responses({}, 404, 422),
    )
    async def remove(request: Request, user_id: UserId, device_id: DeviceId) -> Response:
        async def answer(call: Call) -> Response:
            async with administration.changing(call) as change:
                row = await remove_device(change.connection, user_id, device_id)
                if row is None:
                    raise RefusedError(problem.DEVICE_NOT_FOUND("This user has no such device. List them with GET."))
                await _audit(change, "deleted", row)
            return Response(status_code=204)

        return await guarded(answer)(call_of(request))

    return Surface(router, {})


async def _audit(change: Change, action: str, row: asyncpg.Record) -> None:
    """Under the user's number, with our own id of the device: the app's name of it may be its owner's."""
    await change.audit(action, KIND, str(row["user_id"]), {"device": public_id(DEVICE, row["id"])})
