"""The signer's public keys: a JWK set (RFC 7517) behind a URL, remembered, and read again when it may have changed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
import orjson
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from services.me.token import KeysUnavailableError
from shared.runtime.logs import get_logger
from shared.runtime.metrics import JWKS_READS

_log = get_logger(__name__)

_MAX_BYTES: Final = 256 * 1024
_MAX_KEYS: Final = 100
_MIN_RSA_BITS: Final = 2048
"""RFC 7518 section 3.3."""

Read = Callable[[], Awaitable[bytes]]
"""The set's document; raises JwksError."""


class JwksError(Exception):
    """The set could not be read; the message names why, without the URL."""


@dataclass(frozen=True, slots=True)
class JwksKey:
    """A key of the set and what it may verify."""

    key: PyJWK
    algorithm: str


class JwksKeys:
    """`Keys` of a JWK set. clock returns seconds and never goes back.

    A set older than `refresh_sec`, or a key id that is not in it, has it read again, at most every `retry_sec`: a
    caller who invents key ids cannot make us call the signer more often. Where reading fails the old keys stay.
    """

    def __init__(
        self,
        read: Read,
        algorithms: frozenset[str],
        *,
        refresh_sec: float,
        retry_sec: float,
        clock: Callable[[], float],
    ) -> None:
        self._read = read
        self._algorithms = algorithms
        self._refresh_sec = refresh_sec
        self._retry_sec = retry_sec
        self._clock = clock
        self._keys: Mapping[tuple[str, str], JwksKey] | None = None
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def ready(self) -> bool:
        """Whether there are keys to verify with; reads them if there never were any."""
        if self._keys is None:
            await self._again()
        return self._keys is not None

    async def find(self, header: Mapping[str, Any]) -> tuple[PyJWK | bytes, str] | None:
        algorithm, key_id = header.get("alg"), header.get("kid", "")
        if algorithm not in self._algorithms or not isinstance(key_id, str):
            return None
        if self._keys is None:
            await self._again()
        elif self._clock() - self._read_at >= self._refresh_sec:
            self._again_soon()  # the old ones serve meanwhile
        if self._keys is None:
            raise KeysUnavailableError("the JWKS cannot be read: check ULAK_ME_JWKS_URL and the network to it")
        found = self._keys.get((key_id, algorithm))
        if found is None and await self._again():
            found = self._keys.get((key_id, algorithm))
        return None if found is None else (found.key, found.algorithm)

    async def _again(self) -> bool:
        """Read the set, unless that was tried a moment ago; False where it was not read. Callers share one reading."""
        task = self._again_soon()
        if task is None:
            return False
        await asyncio.shield(task)  # one caller that hangs up does not end it for the others
        return True

    def _again_soon(self) -> asyncio.Task[None] | None:
        if self._reading is not None and not self._reading.done():
            return self._reading
        if self._clock() - self._tried_at < self._retry_sec:
            return None
        self._tried_at = self._clock()
        self._reading = asyncio.create_task(self._refresh())
        return self._reading

    async def _refresh(self) -> None:
        try:
            keys = parse_jwks(await self._read(), self._algorithms)
        except JwksError as error:
            JWKS_READS.labels("failed").inc()
            _log.warning("jwks_not_read", reason=str(error), effect="the keys known so far stay")
            return
        JWKS_READS.labels("read").inc()
        self._keys = keys
        self._read_at = self._clock()


def parse_jwks(document: bytes, algorithms: frozenset[str]) -> Mapping[tuple[str, str], JwksKey]:
    """Keys by (key id, algorithm). What is not for signatures, symmetric, too weak or unknown is left out.

    JwksError for what is no JWK set, and for one without a usable key.
    """
    try:
        entries = orjson.loads(document)["keys"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise JwksError("not a JWK set") from None
    if not isinstance(entries, list) or len(entries) > _MAX_KEYS:
        raise JwksError(f"not a list of at most {_MAX_KEYS} keys")
    found: dict[tuple[str, str], JwksKey] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        key_id = entry.get("kid", "")
        if not isinstance(key_id, str):
            continue
        for algorithm in _fitting(entry) & algorithms:
            try:
                key = PyJWK(entry, algorithm)
            except (PyJWTError, ValueError, TypeError):
                continue
            if getattr(key.key, "key_size", _MIN_RSA_BITS) < _MIN_RSA_BITS and entry["kty"] == "RSA":
                continue
            found[key_id, algorithm] = JwksKey(key, algorithm)
    if not found:
        raise JwksError(f"no key for {', '.join(sorted(algorithms))} in it")
    return found


def _fitting(entry: Mapping[str, Any]) -> frozenset[str]:
    """The algorithms a key can serve, narrowed to the one that it names."""
    fitting = _BY_KIND.get((entry.get("kty"), entry.get("crv")), frozenset())
    named = entry.get("alg")
    return fitting if named is None else fitting & {named} if isinstance(named, str) else frozenset()


_BY_KIND: Final[Mapping[tuple[Any, Any], frozenset[str]]] = {
    ("RSA", None): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}


@asynccontextmanager
async def open_jwks(url: str, *, timeout_sec: float) -> AsyncIterator[Read]:
    """A reader of the set at this URL: no redirects, no proxy from the environment, bounded in size and time."""
    async with httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=timeout_sec) as client:

        async def read() -> bytes:
            try:
                async with asyncio.timeout(timeout_sec), client.stream("GET", url) as response:
                    if response.status_code != 200:
                        raise JwksError(f"answered {response.status_code}")
                    return await _bounded(response)
            except (httpx.HTTPError, TimeoutError) as error:
                raise JwksError(f"no answer: {type(error).__name__}") from error

        yield read


async def _bounded(response: httpx.Response) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > _MAX_BYTES:
            raise JwksError(f"larger than {_MAX_BYTES} bytes")
    return bytes(content)
