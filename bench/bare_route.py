"""The bare limit of the ingest bench: a FastAPI route with the same model and the same auth, storing nothing.

Started as a process of its own: `python -m bench.bare_route <port> <secret>`.
"""

import asyncio
import hashlib
import hmac
import sys
from typing import Annotated

import uvicorn
import uvloop
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from services.ingest.model import NotificationRequest

_CONSTANT = {"notificationId": "ntf_01kbapv8a4fevs0dqf3qx5kpkx"}


def build(secret: str) -> FastAPI:
    """One route; the key is compared by its hash, as ingest does when it has the key in memory."""
    expected = hashlib.sha256(secret.encode()).digest()
    bearer = HTTPBearer()

    async def authenticated(credentials: Annotated[HTTPAuthorizationCredentials, Depends(bearer)]) -> None:
        if not hmac.compare_digest(hashlib.sha256(credentials.credentials.encode()).digest(), expected):
            raise HTTPException(401)

    app = FastAPI()

    @app.post("/internal/v1/notifications", status_code=202, dependencies=[Depends(authenticated)])
    async def accept(_body: NotificationRequest) -> dict[str, str]:
        return _CONSTANT

    return app


def main() -> None:
    port, secret = int(sys.argv[1]), sys.argv[2]
    config = uvicorn.Config(
        build(secret), host="127.0.0.1", port=port, loop="none", http="httptools", access_log=False, log_config=None
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()
