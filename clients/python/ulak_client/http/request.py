"""The calls as values, the same for the blocking and the awaited client."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from ulak_client.email import Email
from ulak_client.http.answer import Accepted, AcceptedEmail, BatchResult, Cancelled
from ulak_client.http.error import TryLaterError, UlakError, refusal
from ulak_client.http.message import Notification, OneTimePassword, email_body
from ulak_client.identifier import new_id

_NOTIFICATIONS: Final = "/internal/v1/notifications"
_OTP: Final = "/internal/v1/otp-messages"
_EMAILS: Final = "/internal/v1/emails"

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Request(Generic[AnswerT]):
    """One call, the same bytes at each try. read: makes the answer of a 2xx status and its JSON."""

    method: str
    path: str
    read: Callable[[int, Any], AnswerT]
    body: bytes | None = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None

    def answer(self, status: int, content: bytes, retry_after_sec: float | None) -> AnswerT:
        """What the answer says; UlakError if it is a refusal or not Ulak's, TryLaterError if it is `not now`."""
        try:
            body = json.loads(content)
        except ValueError:
            body = None
        if not 200 <= status < 300:
            raise refusal(status, body, request_key=self.key, retry_after_sec=retry_after_sec)
        try:
            return self.read(status, body)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UlakError(
                status=status,
                code="not_ulaks_answer",
                detail="the answer cannot be read: check base_url, and that this client is not older than the service",
                request_key=self.key,
            ) from error

    def unanswered(self, reason: str) -> TryLaterError:
        """For a try that got no answer; reason: the class of what happened."""
        detail = f"no answer ({reason}): make the same call again, its key keeps it from being told twice"
        return TryLaterError(status=None, code="no_answer", detail=detail, request_key=self.key)


def notify(notification: Notification) -> Request[Accepted]:
    return _post(_NOTIFICATIONS, notification.body(), Accepted.read, notification.event_id)


def notify_batch(notifications: Sequence[Notification]) -> Request[list[BatchResult]]:
    ids = [notification.event_id for notification in notifications]

    def read(_status: int, body: Any) -> list[BatchResult]:
        return [BatchResult.read(id_, item) for id_, item in zip(ids, body["results"], strict=True)]

    items = [notification.body() for notification in notifications]
    return _post(f"{_NOTIFICATIONS}/batch", {"items": items}, read, None)


def send_otp(password: OneTimePassword) -> Request[Accepted]:
    return _post(_OTP, password.body(), Accepted.read, password.request_id)


def send_email(email: Email, idempotency_key: str | None) -> Request[AcceptedEmail]:
    key = str(new_id()) if idempotency_key is None else idempotency_key
    return _post(_EMAILS, email_body(email, key), AcceptedEmail.read, key)


def get(notification_id: str) -> Request[dict[str, Any]]:
    return Request("GET", _one(_NOTIFICATIONS, notification_id), _as_it_is)


def find(event_id: str, type_name: str | None) -> Request[dict[str, Any]]:
    query = {"eventId": event_id} if type_name is None else {"eventId": event_id, "type": type_name}
    return Request("GET", _NOTIFICATIONS, _as_it_is, query=query)


def explain(notification_id: str) -> Request[dict[str, Any]]:
    return Request("GET", f"{_one(_NOTIFICATIONS, notification_id)}/explain", _as_it_is)


def cancel(notification_id: str) -> Request[Cancelled]:
    return Request("POST", f"{_one(_NOTIFICATIONS, notification_id)}/cancel", Cancelled.read, key=notification_id)


def get_otp(request_id: str) -> Request[dict[str, Any]]:
    return Request("GET", _one(_OTP, request_id), _as_it_is)


def get_email(email_id: str) -> Request[dict[str, Any]]:
    return Request("GET", _one(_EMAILS, email_id), _as_it_is)


def explain_email(email_id: str) -> Request[dict[str, Any]]:
    return Request("GET", f"{_one(_EMAILS, email_id)}/explain", _as_it_is)


def _post(path: str, body: Mapping[str, Any], read: Callable[[int, Any], AnswerT], key: str | None) -> Request[AnswerT]:
    content = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Request("POST", path, read, content, key=key)


def _one(collection: str, id_: str) -> str:
    return f"{collection}/{quote(id_, safe='')}"


def _as_it_is(_status: int, body: Any) -> dict[str, Any]:
    return dict(body)
