"""What the receiver refuses, each as the error that carries it to the answer."""

from typing import Final

from shared.web.problem import BODY_TOO_LARGE, BODY_TOO_SLOW, ProblemKind, RefusedError

_UNKNOWN_PROVIDER: Final = ProblemKind("unknown_provider", 404, "Unknown provider")
_UNSIGNED: Final = ProblemKind("signature_missing", 401, "Signature missing")
_FORGED: Final = ProblemKind("signature_refused", 403, "Signature refused")
_BUSY: Final = ProblemKind("try_again", 503, "Try again")


def unknown_provider() -> RefusedError:
    return RefusedError(_UNKNOWN_PROVIDER("No such provider is configured to call back here."))


def unsigned(detail: str) -> RefusedError:
    return RefusedError(_UNSIGNED(detail, headers={"www-authenticate": "Signature"}))


def forged(detail: str) -> RefusedError:
    return RefusedError(_FORGED(detail))


def too_large(limit: int) -> RefusedError:
    return RefusedError(BODY_TOO_LARGE(f"A callback has at most {limit} bytes."))


def too_slow(limit_sec: float) -> RefusedError:
    return RefusedError(BODY_TOO_SLOW(f"The body did not arrive within {limit_sec:g} seconds."))


def busy(detail: str) -> RefusedError:
    return RefusedError(_BUSY(detail, headers={"retry-after": "5"}))
