"""The internal API as commands call it: `ULAK_INGEST_URL` and `ULAK_API_KEY` say where and as whom."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx
import orjson

from ops.cli.errors import CommandError, RefusedError

_TIMEOUT_SEC = 30.0
_STREAM_TIMEOUT_SEC = 600.0
"""What is sent as a stream is taken at the pace that is set for it, and answered when its last line is in."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API said to a request it took: status and body."""

    status: int
    body: dict[str, Any]


class IngestClient:
    """One call after another; everything the API refuses is a RefusedError with the API's own sentence."""

    def __init__(self, url: str, api_key: str) -> None:
        self._url = url
        self._client = httpx.Client(
            base_url=url, headers={"authorization": f"Bearer {api_key}"}, timeout=_TIMEOUT_SEC, trust_env=False
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "IngestClient":
        """CommandError names the setting that is missing."""
        url, api_key = environment.get("ULAK_INGEST_URL"), environment.get("ULAK_API_KEY")
        if not url:
            raise CommandError(
                "ULAK_INGEST_URL is not set: run `export $(ulak dev env)`, or set the ingest service's URL."
            )
        if not api_key:
            raise CommandError("ULAK_API_KEY is not set: run `export $(ulak dev env)`, or `ulak api-keys create`.")
        return cls(url, api_key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._client.close()

    def get(self, path: str) -> Answer:
        return self._call("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        return self._call("POST", path, body)

    def post_lines(self, path: str, lines: Iterable[bytes]) -> Answer:
        """Send NDJSON as it is produced, no faster than it is taken."""
        timeout = httpx.Timeout(_TIMEOUT_SEC, read=_STREAM_TIMEOUT_SEC, write=_STREAM_TIMEOUT_SEC)
        headers = {"content-type": "application/x-ndjson"}
        return self._answer("POST", path, content=lines, headers=headers, timeout=timeout)

    def get_lines(self, path: str) -> Iterator[dict[str, Any]]:
        """What is told as NDJSON, one by one; whoever has enough may stop."""
        try:
            with self._client.stream("GET", path) as response:
                if response.is_error:
                    response.read()
                    self._body(response)
                yield from map(orjson.loads, response.iter_lines())
        except httpx.HTTPError as error:
            raise self._unanswered(error) from error

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        return self._answer(method, path, json=body)

    def _answer(self, method: str, path: str, **content: Any) -> Answer:
        try:
            response = self._client.request(method, path, **content)
        except httpx.HTTPError as error:
            raise self._unanswered(error) from error
        return Answer(response.status_code, self._body(response))

    def _body(self, response: httpx.Response) -> dict[str, Any]:
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise CommandError(
                f"What answers at {self._url} is not Ulak (HTTP {response.status_code}): correct the URL."
            )
        if response.is_error:
            raise RefusedError(str(answer.get("code", "")), refusal(response.status_code, answer))
        return answer

    def _unanswered(self, error: httpx.HTTPError) -> CommandError:
        return CommandError(
            f"Nothing answers at {self._url} ({type(error).__name__}): start the ingest service, "
            "or correct ULAK_INGEST_URL."
        )


def refusal(status: int, problem: Mapping[str, Any]) -> str:
    """A problem document as one text: title, sentence, and the fields beneath."""
    lines = [f"{problem.get('title', 'Refused')} ({problem.get('code', status)}): {problem.get('detail', '')}".rstrip()]
    lines += [
        f"  {error.get('path', '?')}: {error['detail']}" for error in problem.get("errors", ()) if error.get("detail")
    ]
    return "\n".join(lines)
