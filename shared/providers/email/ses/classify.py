"""What Amazon SES meant. Pure.

Sources: Amazon SES API v2 Reference, "SendEmail" (its errors) and "Common Errors"; SES Developer Guide, "Errors related
to the sending quotas" (a message over a quota is dropped, so it was not processed; wait up to ten minutes).
An error names its type in the header `x-amzn-ErrorType` (AWS restJson1 protocol). SES has no idempotency key: a request
that may have been processed and is made again may be a second mail.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from shared.core.outcome import (
    Accepted,
    Ambiguous,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    Throttled,
    Transient,
)
from shared.core.ports import Reply
from shared.providers.retry_after import retry_after_sec

DAILY_QUOTA_WAIT_SEC: Final = 600.0
"""The quota of 24 hours rolls, so that some of it is free soon; ten minutes are AWS's own advice."""

_DAILY: Final = "daily message quota"
_UNVERIFIED: Final = "not verified"

ERRORS: Final[Mapping[str, Outcome]] = {
    "AccountSuspendedException": ProviderDown("AccountSuspendedException: write to AWS support"),
    "BadRequestException": Permanent("BadRequestException"),
    "LimitExceededException": Throttled(Scope.ACCOUNT, "LimitExceededException"),
    "MailFromDomainNotVerifiedException": ProviderDown(
        "MailFromDomainNotVerifiedException: verify the domain in SES", whole_account=False
    ),
    "MessageRejected": Permanent("MessageRejected"),
    "NotFoundException": ProviderDown("NotFoundException: check ULAK_SES_CONFIGURATION_SET and ULAK_SES_REGION"),
    "SendingPausedException": ProviderDown("SendingPausedException: sending is paused for the account or the set"),
    "TooManyRequestsException": Throttled(Scope.ACCOUNT, "TooManyRequestsException"),
    "ThrottlingException": Throttled(Scope.ACCOUNT, "ThrottlingException"),
    "AccessDeniedException": ProviderDown("AccessDeniedException: allow ses:SendEmail to the key or role"),
    "ExpiredTokenException": ProviderDown("ExpiredTokenException"),
    "IncompleteSignature": ProviderDown("IncompleteSignature"),
    "InvalidClientTokenId": ProviderDown("InvalidClientTokenId: check ULAK_SES_ACCESS_KEY_ID"),
    "NotAuthorized": ProviderDown("NotAuthorized"),
    "OptInRequired": ProviderDown("OptInRequired"),
    "RequestExpired": ProviderDown("RequestExpired: check the clock of this host"),
    "SignatureDoesNotMatch": ProviderDown("SignatureDoesNotMatch: check ULAK_SES_SECRET_ACCESS_KEY and the clock"),
    "UnrecognizedClientException": ProviderDown("UnrecognizedClientException: check ULAK_SES_ACCESS_KEY_ID"),
    "RequestTimeoutException": Transient("RequestTimeoutException", not_processed=True),
    "RequestEntityTooLargeException": Permanent("RequestEntityTooLargeException"),
    "ValidationError": Permanent("ValidationError"),
    # Of these, nobody says whether the mail was taken.
    "RequestAbortedException": Transient("RequestAbortedException"),
    "InternalFailure": Transient("InternalFailure"),
    "InternalServiceErrorException": Transient("InternalServiceErrorException"),
    "ServiceUnavailable": Transient("ServiceUnavailable"),
}


def classify(reply: Reply, now: datetime) -> Outcome:  # noqa: PLR0911  one return per row of the table
    """One reply as one outcome, for all recipients of the mail. An error that is not listed is Ambiguous."""
    body = _body(reply)
    if 200 <= reply.status < 300:
        message_id = body.get("MessageId")
        return Accepted(message_id if isinstance(message_id, str) else None)
    error = _error(reply, body)
    outcome = ERRORS.get(error)
    text = _text(body).lower()
    if reply.status == 429 or isinstance(outcome, Throttled):
        wait_sec = retry_after_sec(reply.headers.get("retry-after"), now)
        if wait_sec is None and _DAILY in text:
            wait_sec = DAILY_QUOTA_WAIT_SEC
        return Throttled(Scope.ACCOUNT, error or "429", wait_sec)
    if error == "MessageRejected" and _UNVERIFIED in text:
        # The only thing that tells it from bad content is the text (API v1 and v2 alike).
        detail = "MessageRejected: an address is not verified, verify the domain or leave the sandbox"
        return ProviderDown(detail, whole_account=False)
    if outcome is not None:
        return outcome
    if reply.status in {401, 403}:
        return ProviderDown(f"{reply.status} {error}".rstrip())
    if reply.status == 413:
        return Permanent("413 request too large")
    if reply.status >= 500:
        return Transient(f"{reply.status} from SES")
    return Ambiguous(f"{reply.status} {error}".rstrip(), unrecognised=True)


def _error(reply: Reply, body: Mapping[str, Any]) -> str:
    """The error's type, without what may stand around its name (`aws#Name:http://...`); '' where there is none."""
    told = reply.headers.get("x-amzn-errortype") or body.get("__type") or body.get("code")
    name = told.partition(":")[0].rpartition("#")[2] if isinstance(told, str) else ""
    return name if name.isascii() and name.isalnum() else ""


def _text(body: Mapping[str, Any]) -> str:
    text = body.get("message") or body.get("Message")
    return text if isinstance(text, str) else ""


def _body(reply: Reply) -> Mapping[str, Any]:
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
