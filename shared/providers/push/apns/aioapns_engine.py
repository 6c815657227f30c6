"""aioapns as the carrier: selectable by `ULAK_APNS_ENGINE=aioapns`; slower, with the library's own HTTP/2.

Only its connections are used. Its `send_notification` loop sends again after a lost connection, which may push twice.
"""

import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from aioapns.common import NotificationRequest, PushType
from aioapns.connection import APNsKeyConnectionPool, APNsTLSClientProtocol
from aioapns.exceptions import ConnectionClosed
from aioapns.exceptions import ConnectionError as ConnectError
from h2.exceptions import H2Error

from shared.core.ports import Reply, ReplyLostError, UnsentError
from shared.providers.deadline import bounded
from shared.providers.push.apns.request import MAX_PAYLOAD_BYTES, ApnsRequest, RefusedError
from shared.providers.push.apns.settings import ApnsSettings

_MAX_CONNECTIONS: Final = 10


class AioapnsCarrier:
    """`Carry` over aioapns' connection pool."""

    def __init__(self, pool: APNsKeyConnectionPool) -> None:
        self._pool = pool

    async def __call__(self, request: ApnsRequest, deadline_sec: float) -> Reply:
        # aioapns writes JSON with spaces, so the limit is checked again on what really travels.
        if len(json.dumps(request.payload, ensure_ascii=False).encode()) > MAX_PAYLOAD_BYTES:
            raise RefusedError(f"payload over {MAX_PAYLOAD_BYTES:,} bytes: shorten title, body or url")
        started = time.monotonic()
        try:
            connection = await bounded(self._pool.acquire(), deadline_sec)
        except (ConnectError, TimeoutError) as error:
            raise UnsentError("no connection to APNs") from error
        left_sec = max(0.001, deadline_sec - (time.monotonic() - started))
        try:
            result = await bounded(connection.send_notification(_notification(request)), left_sec)
        except (ConnectionClosed, H2Error, TimeoutError) as error:
            raise ReplyLostError(f"no reply: {type(error).__name__}") from error
        headers = {"apns-id": request.headers["apns-id"]}
        body = b"" if result.is_successful else orjson.dumps({"reason": result.description})
        return Reply(int(result.status), headers, body)


def _notification(request: ApnsRequest) -> NotificationRequest:
    headers = request.headers
    return NotificationRequest(
        device_token=request.token,
        message=request.payload,
        notification_id=headers["apns-id"],
        time_to_live=int(headers["apns-expiration"]) - int(time.time()),
        priority=int(headers["apns-priority"]),
        collapse_key=headers.get("apns-collapse-id"),
        push_type=PushType(headers["apns-push-type"]),
        apns_topic=headers["apns-topic"],
    )


@asynccontextmanager
async def open_aioapns(settings: ApnsSettings, key_pem: str) -> AsyncIterator[AioapnsCarrier]:
    """The carrier for the length of the block, connected to the host of `base_url`."""
    address = urlsplit(settings.base_url)
    context = ssl.create_default_context()
    if settings.ca_file is not None:
        context.load_verify_locations(cafile=settings.ca_file)
    context.set_alpn_protocols(["h2"])

    class Protocol(APNsTLSClientProtocol):  # the library takes the host by class
        APNS_SERVER: Any = address.hostname
        APNS_PORT: Any = address.port or 443

    pool = APNsKeyConnectionPool(
        key=key_pem,
        key_id=settings.key_id or "",  # checked by the settings
        team_id=settings.team_id or "",
        topic=settings.topic or "",
        max_connections=_MAX_CONNECTIONS,
        max_connection_attempts=1,
        ssl_context=context,
    )
    pool.protocol_class = Protocol
    try:
        yield AioapnsCarrier(pool)
    finally:
        for connection in tuple(pool.connections):
            connection.close()
