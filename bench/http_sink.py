"""APNs that only counts: HTTP/2 over TLS, by granian. `python -m bench.http_sink PORT CERTIFICATE KEY`.

Every request's `apns-id` is remembered; `GET /count` tells how many came and how many were different.
"""

import sys
from pathlib import Path
from typing import Any

import orjson
import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server

_seen: dict[str, int] = {}


async def app(scope: Any, protocol: Any) -> None:
    """RSGI, granian's own interface: the least work between socket and count."""
    if scope.method == "GET":
        body = orjson.dumps({"requests": sum(_seen.values()), "distinct": len(_seen)})
        protocol.response_bytes(200, [("content-type", "application/json")], body)
        return
    reference = scope.headers.get("apns-id")
    await protocol()
    _seen[reference] = _seen.get(reference, 0) + 1
    protocol.response_bytes(200, [("apns-id", reference)], b"")


async def main() -> None:
    port, certificate, key = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    server = Server(
        app,
        address="127.0.0.1",
        port=port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http2,
        ssl_cert=certificate,
        ssl_key=key,
        log_enabled=False,
    )
    await server.serve()


if __name__ == "__main__":
    uvloop.run(main())
