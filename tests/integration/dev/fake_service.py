"""A service for the supervisor's tests: `python -m tests.integration.dev.fake_service NAME [BEHAVIOUR]`.

Answers /readyz on ULAK_HEALTH_PORT, ends with 1 at /crash, and writes a line to $FAKE_JOURNAL when it starts and stops.
BEHAVIOUR: `dies` ends at once, `silent` is never ready, `parent` starts a process of its own,
`simulator` tells endpoints.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType


def journal(line: str) -> None:
    with Path(os.environ["FAKE_JOURNAL"]).open("a") as file:
        file.write(line + "\n")


class Handler(BaseHTTPRequestHandler):
    ready = True

    def do_GET(self) -> None:
        if self.path == "/crash":
            os._exit(1)
        self.send_response(200 if self.ready else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def tell_endpoints(folder: Path) -> None:
    """What the real simulator writes before it is ready, as far as the supervisor reads it."""
    folder.mkdir()
    (folder / "token").write_text("secret")
    names = ("url", "apns", "apnsKeyFile", "apnsKeyId", "apnsTeamId", "fcm", "fcmServiceAccountFile")
    more = ("webpush", "webpushVapidKeyFile", "twilio", "twilioAccountSid", "smtp", "caFile")
    iys = ("iys", "iysUsername", "iysPassword", "iysCode", "iysBrandCode")
    told = {**dict.fromkeys((*names, *more, *iys), "127.0.0.1:1"), "twilioAuthTokenFile": str(folder / "token")}
    (folder / "endpoints.json").write_text(json.dumps(told))


def main(name: str, behaviour: str = "") -> None:
    if behaviour == "dies":
        sys.exit(f"error: {name} lacks its setting")
    Handler.ready = behaviour != "silent"
    if behaviour == "parent":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        journal(f"child {child.pid}")
    if behaviour == "simulator":
        tell_endpoints(Path(os.environ["ULAK_SIMULATOR_STATE_DIR"]))
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["ULAK_HEALTH_PORT"])), Handler)

    def stop(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    journal(f"start {name}")
    server.serve_forever()
    journal(f"stop {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
