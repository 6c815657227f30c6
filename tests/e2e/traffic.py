"""Traffic for chaos tests: what was accepted, and the account of what became of it."""

import itertools
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self

from tests.e2e.stack import Stack, eventually, persistently

FINAL = frozenset({"SENT", "DELIVERED", "FAILED", "SKIPPED", "UNKNOWN"})
USER = 7
DELIVERIES_PER_ORDER = 3
"""Two devices and an e-mail address (ops/demo/sample)."""


@dataclass
class Traffic:
    """Sends orders and login codes one after another until stopped; a caller that repeats what was not answered."""

    stack: Stack
    pause_sec: float = 0.05
    orders: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(timeout=90)
        if self._failure is not None:
            raise self._failure

    def wait_for(self, count: int) -> None:
        """Return once at least `count` orders were accepted."""
        eventually(lambda: True if len(self.orders) >= count or self._failure else None, f"{count} accepted orders")

    def _run(self) -> None:
        try:
            with self.stack.http("ULAK_INGEST_URL") as ingest, self.stack.http("ULAK_OTP_URL") as otp:
                for number in itertools.count():
                    if self._stop.is_set():
                        return
                    event_id = f"chaos-{uuid.uuid4()}"
                    body = {
                        "eventId": event_id,
                        "userId": USER,
                        "type": "ORDER_SHIPPED",
                        "params": {
                            "orderNo": str(number),
                            "carrier": "Kargo A",
                            "trackingUrl": "https://kargo.example/1",
                        },
                    }
                    reply = persistently(lambda body=body: ingest.post("/internal/v1/notifications", json=body))  # type: ignore[misc]
                    assert reply.status_code in {200, 202}, reply.text
                    self.orders.append(reply.json()["notificationId"])
                    if number % 5 == 0:
                        code = {
                            "requestId": f"otp-{event_id}",
                            "phone": f"+90532{1000000 + len(self.codes):07d}",
                            "code": "482913",
                            "expiresInSeconds": 180,
                        }
                        reply = persistently(lambda code=code: otp.post("/internal/v1/otp-messages", json=code))  # type: ignore[misc]
                        assert reply.status_code in {200, 202}, reply.text
                        self.codes.append(reply.json()["notificationId"])
                    time.sleep(self.pause_sec)
        except BaseException as error:  # noqa: BLE001  told to the test's thread
            self._failure = error


def account(traffic: Traffic, *, within_sec: float = 90) -> Counter[str]:
    """Wait until every accepted notification has settled; returns deliveries by status.

    Raises if one is lost, stuck, failed, or was decided otherwise than its type says.
    """
    statuses: Counter[str] = Counter()
    deadline = time.monotonic() + within_sec
    with traffic.stack.http("ULAK_INGEST_URL") as ingest:
        for notification_id, wanted in [
            *((order, DELIVERIES_PER_ORDER) for order in traffic.orders),
            *((code, 1) for code in traffic.codes),
        ]:

            def settled(notification_id: str = notification_id, wanted: int = wanted) -> dict[str, Any] | None:
                reply = persistently(lambda: ingest.get(f"/internal/v1/notifications/{notification_id}"))
                assert reply.status_code == 200, f"{notification_id} was accepted and is lost: {reply.text}"
                body: dict[str, Any] = reply.json()
                done = [delivery["status"] in FINAL for delivery in body["deliveries"]]
                return body if len(done) == wanted and all(done) else None

            body = eventually(
                settled,
                f"all deliveries of {notification_id} settling",
                within_sec=max(1.0, deadline - time.monotonic()),
            )
            statuses.update(delivery["status"] for delivery in body["deliveries"])
    return statuses


def doubles(stack: Stack, provider: str) -> int:
    """How many accepted calls repeat an earlier one of the same reference."""
    counts = Counter(message["reference"] for message in stack.arrived(provider) if message["accepted"])
    return sum(count - 1 for count in counts.values())
