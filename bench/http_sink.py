"""A provider that only counts: HTTP/2 over TLS or plain HTTP/1.1, answering as APNs or Twilio would. Run by granian.

`python -m bench.http_sink PORT [CERTIFICATE KEY]`. Every request's `apns-id`, or the `ref` in its form, is remembered;
`GET /count` tells how many came and how many were different.
"""

import sys
import urllib.parse
from pathlib import Path
from typing import Any

import orjson
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
    content = await protocol()
    if reference is None:
        fields = urllib.parse.parse_qs(bytes(content).decode())
        reference = fields["StatusCallback"][0]
        _count(reference)
        protocol.response_bytes(201, [("content-type", "application/json")], b'{"sid":"SM0123456789abcdef"}')
        return
    _count(reference)
    protocol.response_bytes(200, [("apns-id", reference)], b"")


def _count(reference: str) -> None:
    _seen[reference] = _seen.get(reference, 0) + 1


async def main() -> None:
    port, files = int(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]]
    certificate, key = files or (None, None)
    server = Server(
        app,
        address="127.0.0.1",
        port=port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http2 if certificate else HTTPModes.http1,
        ssl_cert=certificate,
        ssl_key=key,
        log_enabled=False,
    )
    await server.serve()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
