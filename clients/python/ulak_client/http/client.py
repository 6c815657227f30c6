"""The clients: blocking and awaited, with the same calls."""

import random
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt
from tenacity.stop import stop_base, stop_before_delay
from ulak_client.email import Email
from ulak_client.http import request
from ulak_client.http.answer import Accepted, AcceptedEmail, BatchResult, Cancelled
from ulak_client.http.error import TryLaterError
from ulak_client.http.message import Notification, OneTimePassword
from ulak_client.http.request import Request
from ulak_client.http.retry import RetryPolicy, retry_after_sec

TIMEOUT: Final = httpx.Timeout(connect=2.0, read=10.0, write=10.0, pool=2.0)
"""Seconds of one try."""
RETRY: Final = RetryPolicy()
_UNANSWERED: Final = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError)
"""What leaves open whether Ulak has it; the other errors of httpx are the caller's (a base_url without a scheme)."""

AnswerT = TypeVar("AnswerT")


class UlakClient:
    """Calls Ulak's internal API and waits. One for the whole process; threads may share it; close it at the end.

    base_url: of the general surface, or of the one for one-time passwords. verify: False, or a context with your own
    certificate authority. Each call is tried again as `retry` says when there was no answer or one that says "not
    now"; each try has the same id, so that an answer that was lost does not become a second notification. Raises
    UlakError. Logs nothing; httpx logs method and path, in which no recipient stands.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: httpx.Timeout = TIMEOUT,
        retry: RetryPolicy = RETRY,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        headers = _headers(api_key)
        self._http = httpx.Client(base_url=base_url, headers=headers, timeout=timeout, verify=verify)
        self._retrying = Retrying(
            retry=retry_if_exception_type(TryLaterError), stop=_stop(retry), wait=_wait(retry), reraise=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def notify(self, notification: Notification) -> Accepted:
        """Tell a user that something happened."""
        return self._send(request.notify(notification))

    def notify_batch(self, notifications: Sequence[Notification]) -> list[BatchResult]:
        """Up to 1,000 and 5 MiB; a result for each, in their order. Over the limit none is accepted."""
        return self._send(request.notify_batch(notifications))

    def send_otp(self, password: OneTimePassword) -> Accepted:
        """Send a one-time password by SMS; base_url is that of its surface."""
        return self._send(request.send_otp(password))

    def send_email(self, email: Email, *, idempotency_key: str | None = None) -> AcceptedEmail:
        """As `enqueue_email`, for callers without a database. Without a key each call is a mail of its own."""
        return self._send(request.send_email(email, idempotency_key))

    def get(self, notification_id: str) -> dict[str, Any]:
        """State and deliveries, addresses masked: the answer's JSON (docs/api.md)."""
        return self._send(request.get(notification_id))

    def find(self, event_id: str, *, type_name: str | None = None) -> dict[str, Any]:
        """`get` by event id; type_name where one event led to several notifications."""
        return self._send(request.find(event_id, type_name))

    def explain(self, notification_id: str) -> dict[str, Any]:
        """Every decision and attempt, in order, in words."""
        return self._send(request.explain(notification_id))

    def cancel(self, notification_id: str) -> Cancelled:
        """Stop what has not gone out; UlakError `nothing_to_cancel` (409) when nothing was stopped.

        That is also the answer when an earlier try, whose own answer was lost, has stopped it: `get` tells.
        """
        return self._send(request.cancel(notification_id))

    def get_otp(self, request_id: str) -> dict[str, Any]:
        """How far a code is, without the code."""
        return self._send(request.get_otp(request_id))

    def get_email(self, email_id: str) -> dict[str, Any]:
        """Where an e-mail stands, recipient by recipient, addresses masked."""
        return self._send(request.get_email(email_id))

    def explain_email(self, email_id: str) -> dict[str, Any]:
        """What happened to an e-mail, in order, in words."""
        return self._send(request.explain_email(email_id))

    def _send(self, call: Request[AnswerT]) -> AnswerT:
        answer: AnswerT = self._retrying(self._once, call)
        return answer

    def _once(self, call: Request[AnswerT]) -> AnswerT:
        try:
            response = self._http.request(call.method, call.path, content=call.body, params=call.query)
        except _UNANSWERED as error:
            raise call.unanswered(type(error).__name__) from error
        return _answer(call, response)


class AsyncUlakClient:
    """`UlakClient` for asyncio: the same calls, awaited."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: httpx.Timeout = TIMEOUT,
        retry: RetryPolicy = RETRY,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        headers = _headers(api_key)
        self._http = httpx.AsyncClient(base_url=base_url, headers=headers, timeout=timeout, verify=verify)
        self._retrying = AsyncRetrying(
            retry=retry_if_exception_type(TryLaterError), stop=_stop(retry), wait=_wait(retry), reraise=True
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def notify(self, notification: Notification) -> Accepted:
        return await self._send(request.notify(notification))

    async def notify_batch(self, notifications: Sequence[Notification]) -> list[BatchResult]:
        return await self._send(request.notify_batch(notifications))

    async def send_otp(self, password: OneTimePassword) -> Accepted:
        return await self._send(request.send_otp(password))

    async def send_email(self, email: Email, *, idempotency_key: str | None = None) -> AcceptedEmail:
        return await self._send(request.send_email(email, idempotency_key))

    async def get(self, notification_id: str) -> dict[str, Any]:
        return await self._send(request.get(notification_id))

    async def find(self, event_id: str, *, type_name: str | None = None) -> dict[str, Any]:
        return await self._send(request.find(event_id, type_name))

    async def explain(self, notification_id: str) -> dict[str, Any]:
        return await self._send(request.explain(notification_id))

    async def cancel(self, notification_id: str) -> Cancelled:
        return await self._send(request.cancel(notification_id))

    async def get_otp(self, request_id: str) -> dict[str, Any]:
        return await self._send(request.get_otp(request_id))

    async def get_email(self, email_id: str) -> dict[str, Any]:
        return await self._send(request.get_email(email_id))

    async def explain_email(self, email_id: str) -> dict[str, Any]:
        return await self._send(request.explain_email(email_id))

    async def _send(self, call: Request[AnswerT]) -> AnswerT:
        return await self._retrying(self._once, call)

    async def _once(self, call: Request[AnswerT]) -> AnswerT:
        try:
            response = await self._http.request(call.method, call.path, content=call.body, params=call.query)
        except _UNANSWERED as error:
            raise call.unanswered(type(error).__name__) from error
        return _answer(call, response)


def _headers(api_key: str) -> dict[str, str]:
    if not api_key or not api_key.isascii() or not api_key.isprintable():
        raise ValueError("api_key is not one that `ulak api-keys create` printed")
    return {"authorization": f"Bearer {api_key}", "content-type": "application/json", "accept": "application/json"}


def _answer(call: Request[AnswerT], response: httpx.Response) -> AnswerT:
    asked = retry_after_sec(response.headers.get("retry-after"), datetime.now(UTC))
    return call.answer(response.status_code, response.content, asked)


def _stop(policy: RetryPolicy) -> stop_base:
    return stop_after_attempt(policy.tries) | stop_before_delay(policy.total_sec)


def _wait(policy: RetryPolicy) -> Callable[[RetryCallState], float]:
    def wait_sec(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after_sec if isinstance(error, TryLaterError) else None
        return policy.wait_sec(state.attempt_number, asked, random.random())  # noqa: S311  spreads callers, no secret

    return wait_sec
