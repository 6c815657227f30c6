"""Google's OAuth 2 token endpoint for service accounts, and the access tokens it gives out.

Source (Google Identity documentation): 'Using OAuth 2.0 for Server to Server Applications'; RFC 7523.
"""

import hashlib
import hmac
import urllib.parse
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

import jwt

from ops.simulator.credential import ServiceAccount
from ops.simulator.exchange import Answer, Reply, Request, json_reply
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.providers.fcm.failure import CREDENTIALS_MISSING, TOKEN_EXPIRED, TOKEN_INVALID, Failure

TOKEN_PATH: Final = "/token"  # noqa: S105 - a path
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
MAX_ASSERTION_SEC: Final = 3600
"""'exp: a maximum of 1 hour after the issued time'."""
CLOCK_SKEW_SEC: Final = 60
SCOPES: Final = frozenset(
    {"https://www.googleapis.com/auth/firebase.messaging", "https://www.googleapis.com/auth/cloud-platform"}
)
_PREFIX: Final = "ya29.simulator"
_UNREASONABLE: Final = (
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
    "Check your iat and exp values in the JWT claim."
)


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """Tokens that carry their own expiry under a MAC, so that they outlive a restart of the simulator."""

    secret: str
    lifetime_sec: int

    def issue(self, now: datetime) -> str:
        expires_at = int(now.timestamp()) + self.lifetime_sec
        return f"{_PREFIX}.{expires_at}.{self._mac(expires_at)}"

    def failure(self, authorization: str | None, now: datetime) -> Failure | None:
        """Why `authorization: Bearer <token>` is refused, or None."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return CREDENTIALS_MISSING
        prefix, _, rest = token.removeprefix("ya29.").partition(".")
        expires_at, _, mac = rest.partition(".")
        if f"ya29.{prefix}" != _PREFIX or not (expires_at.isascii() and expires_at.isdigit()):
            return TOKEN_INVALID
        if not hmac.compare_digest(mac.encode(), self._mac(int(expires_at)).encode()):
            return TOKEN_INVALID
        return TOKEN_EXPIRED if int(expires_at) <= now.timestamp() else None

    def _mac(self, expires_at: int) -> str:
        return hmac.new(self.secret.encode(), str(expires_at).encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """`POST /token` with a signed assertion. Not a message: it can be faulted, but is not in the ledger."""

    account: ServiceAccount
    tokens: AccessTokens
    audiences: frozenset[str]
    """The addresses this endpoint is reached at; an assertion must name one of them."""

    name: ClassVar[str] = "fcm-oauth"
    ledgered: ClassVar[bool] = False

    def read(self, _request: Request) -> Arrival:
        return Arrival(to=None, reference=None, content={})

    def answer(self, request: Request, _arrival: Arrival, now: datetime, _action: Action | None) -> Answer:
        if request.method != "POST":
            return _refused("invalid_request", "Use POST.")
        form = dict(urllib.parse.parse_qsl(request.body.decode("utf-8", errors="replace")))
        if form.get("grant_type") != JWT_BEARER:
            return _refused("unsupported_grant_type", f"Invalid grant_type: {form.get('grant_type', '')}")
        problem = self._problem(form.get("assertion", ""), now)
        if problem is not None:
            return _refused(*problem)
        value = {
            "access_token": self.tokens.issue(now),
            "expires_in": max(self.tokens.lifetime_sec - 1, 0),
            "token_type": "Bearer",
        }
        return Answer(json_reply(200, value))

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        if status >= 500:
            return json_reply(status, {"error": "internal_failure"})
        return json_reply(status, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})

    def _problem(self, assertion: str, now: datetime) -> tuple[str, str] | None:  # noqa: PLR0911 - one return per error
        """OAuth's error and description for a bad assertion, or None."""
        try:
            header = jwt.get_unverified_header(assertion)
            claims = jwt.decode(
                assertion,
                self.account.public_key,
                algorithms=["RS256"],
                audience=list(self.audiences),
                options={
                    "require": ["iss", "aud", "iat", "exp"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except jwt.InvalidAudienceError:
            return "invalid_grant", "Invalid JWT: Failed audience check."
        except jwt.PyJWTError:
            return "invalid_grant", "Invalid JWT Signature."
        if header.get("kid") not in {None, self.account.private_key_id}:
            return "invalid_grant", "Invalid JWT Signature."
        if claims["iss"] != self.account.client_email:
            return "invalid_grant", "Invalid grant: account not found"
        issued_at, expires_at, seconds = claims["iat"], claims["exp"], now.timestamp()
        reasonable = (
            isinstance(issued_at, int | float)
            and isinstance(expires_at, int | float)
            and issued_at <= seconds + CLOCK_SKEW_SEC
            and seconds - CLOCK_SKEW_SEC < expires_at <= issued_at + MAX_ASSERTION_SEC + CLOCK_SKEW_SEC
        )
        if not reasonable:
            return "invalid_grant", _UNREASONABLE
        if not SCOPES & set(str(claims.get("scope", "")).split()):
            return "invalid_scope", "Invalid OAuth scope or ID token audience provided."
        return None


def _refused(error: str, description: str) -> Answer:
    return Answer(json_reply(400, {"error": error, "error_description": description}), error=error)
