"""The internal API as commands call it: `ULAK_INGEST_URL` and `ULAK_API_KEY` say where and as whom."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx

from ops.cli.errors import CommandError

_TIMEOUT_SEC = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API said to a request it took: status and body."""

    status: int
    body: dict[str, Any]


class IngestClient:
    """One call after another; everything the API refuses is a CommandError with the API's own sentence."""

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
                "ULAK_INGEST_URL is not set: run `eval $(ulak dev env)`, or set the ingest service's URL."
            )
        if not api_key:
            raise CommandError("ULAK_API_KEY is not set: run `eval $(ulak dev env)`, or `ulak api-keys create`.")
        return cls(url, api_key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._client.close()

    def get(self, path: str) -> Answer:
        return self._call("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        return self._call("POST", path, body)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        try:
            response = self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise CommandError(
                f"Nothing answers at {self._url} ({type(error).__name__}): start the ingest service, "
                "or correct ULAK_INGEST_URL."
            ) from error
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise CommandError(
                f"What answers at {self._url} is not Ulak (HTTP {response.status_code}): correct the URL."
            )
        if response.is_error:
            raise CommandError(refusal(response.status_code, answer))
        return Answer(response.status_code, answer)


def refusal(status: int, problem: Mapping[str, Any]) -> str:
    """A problem document as one text: title, sentence, and the fields beneath."""
    lines = [f"{problem.get('title', 'Refused')} ({problem.get('code', status)}): {problem.get('detail', '')}".rstrip()]
    lines += [
        f"  {error.get('path', '?')}: {error['detail']}" for error in problem.get("errors", ()) if error.get("detail")
    ]
    return "\n".join(lines)
