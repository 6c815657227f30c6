"""Twilio's status callbacks: signed, in the planned order, tried again when the receiver fails.

Sources (Twilio documentation): 'Track the message status of outbound messages', 'Webhooks security'.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import httpx
import structlog

from ops.simulator.exchange import Clock
from ops.simulator.providers.twilio.message import API_VERSION, STATUSES, Message, MessageStore
from ops.simulator.providers.twilio.signature import signature
from ops.simulator.receipt import NoReceiptError, ReceiptPolicy, plan

RETRY_DELAYS_SEC: Final = (0.2, 0.5, 1.0)
"""Waits before the second, third and fourth try of one receipt."""
MAX_CONCURRENT_POSTS: Final = 32
TIMEOUT_SEC: Final = 15.0
"""Twilio waits 15 seconds for a webhook to answer."""
MAX_PLANNED: Final = 200_000
"""Messages whose receipts are still to come; one more gets none, which is counted as failed."""

_log = structlog.get_logger(__name__)


def params_of(message: Message) -> dict[str, str]:
    """The form of one status callback."""
    params = {
        "AccountSid": message.account_sid,
        "ApiVersion": API_VERSION,
        "MessageSid": message.sid,
        "MessageStatus": message.status,
        "SmsSid": message.sid,
        "SmsStatus": message.status,
        "To": message.to,
    }
    if message.sender is not None:
        params["From"] = message.sender
    if message.service_sid is not None:
        params["MessagingServiceSid"] = message.service_sid
    if message.error_code is not None:
        params["ErrorCode"] = str(message.error_code)
    return params


@dataclass(slots=True)
class StatusCallbacks:
    """Sends the receipts of accepted messages. The client is closed by whoever opened it, after `stop`."""

    auth_token: str
    store: MessageStore
    client: httpx.AsyncClient
    clock: Clock
    random: Random
    policy: ReceiptPolicy
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _counts: Counter[str] = field(default_factory=Counter)
    _posts: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_POSTS))

    def schedule(self, message: Message, final_status: str, error_code: int | None) -> None:
        """Plan the receipts queued, sent and the final one by the policy that holds now."""
        if len(self._tasks) >= MAX_PLANNED:
            self._counts["failed"] += 1
            return
        self._start(self._run(message, final_status, error_code))

    async def send_now(self, reference: str, status: str, error_code: int | None) -> int | None:
        message = self.store.latest(reference)
        if message is None:
            raise NoReceiptError(f"No accepted twilio message has the reference {reference!r}.")
        if message.status_callback is None:
            raise NoReceiptError("The message was sent without a StatusCallback address.")
        if status not in STATUSES:
            raise NoReceiptError(f"status must be one of {', '.join(sorted(STATUSES))}.")
        current = self.store.advance(message.sid, status, error_code, self.clock())
        return await self._post(current or message)

    def counts(self) -> dict[str, int]:
        return {"sent": self._counts["sent"], "failed": self._counts["failed"], "planned": len(self._tasks)}

    def clear(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._counts.clear()
        self.store.clear()

    async def stop(self) -> None:
        """Cancel what is planned and wait for it to end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, message: Message, final_status: str, error_code: int | None) -> None:
        statuses = ["failed"] if final_status == "failed" else ["queued", "sent", final_status]
        for step in plan(statuses, self.policy, self.random):
            await asyncio.sleep(step.wait_sec)
            code = error_code if step.status == final_status else None
            current = self.store.advance(message.sid, step.status, code, self.clock())
            if current is not None and step.posted and current.status_callback is not None:
                await self._post_with_retries(current)

    async def _post_with_retries(self, message: Message) -> None:
        for delay in (*RETRY_DELAYS_SEC, None):
            status = await self._post(message)
            if status is not None and status < 500:
                return
            if delay is None:
                _log.warning("simulator_receipt_given_up", message_sid=message.sid, status=status)
                return
            await asyncio.sleep(delay)

    async def _post(self, message: Message) -> int | None:
        """One try: the receiver's status, None if it could not be reached. Counts 2xx as sent, the rest as failed."""
        url, params = message.status_callback or "", params_of(message)
        headers = {"X-Twilio-Signature": signature(self.auth_token, url, params), "User-Agent": "TwilioProxy/1.1"}
        async with self._posts:
            try:
                response = await self.client.post(url, data=params, headers=headers, timeout=TIMEOUT_SEC)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                self._counts["failed"] += 1
                _log.info("simulator_receipt_unreachable", message_sid=message.sid, error=type(error).__name__)
                return None
        self._counts["sent" if response.is_success else "failed"] += 1
        return response.status_code
