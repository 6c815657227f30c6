"""What the simulated registry holds: the permissions, batches on their way, and the feed of citizens' changes."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ops.simulator.providers.iys.rule import ZONE, Consent, Problem, against, read


@dataclass(frozen=True, slots=True)
class Written:
    transaction_id: str
    creation_date: str

    def body(self) -> dict[str, object]:
        return {"transactionId": self.transaction_id, "creationDate": self.creation_date}


@dataclass(slots=True)
class Batch:
    """Lines of one asynchronous request; they are looked at once the result has been asked for once."""

    lines: list[tuple[str, object]]
    results: list[dict[str, object]] | None = None
    asked: bool = False


@dataclass(slots=True)
class Registry:
    """One brand's. Lives as long as the simulator."""

    known: dict[tuple[str, str, str], Consent] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    changes: list[dict[str, object]] = field(default_factory=list)

    def write(self, form: object, now: datetime) -> Written | Sequence[Problem]:
        consent = read(form, now)
        if isinstance(consent, list):
            return consent
        problem = against(consent, self.known.get(consent.key))
        if problem is not None:
            return [problem]
        self.known[consent.key] = consent
        return Written(str(uuid.uuid4()), _date(now))

    def enqueue(self, forms: Sequence[object]) -> dict[str, object]:
        """`POST /consents/request`."""
        request_id = str(uuid.uuid4())
        lines = [(str(uuid.uuid4()), form) for form in forms]
        self.batches[request_id] = Batch(lines)
        return {
            "requestId": request_id,
            "subRequests": [
                {"subrequestId": sub_id, **(form if isinstance(form, dict) else {})} for sub_id, form in lines
            ],
        }

    def results(self, request_id: str, now: datetime) -> list[dict[str, object]] | None:
        """`GET /consents/request/{requestId}`: `enqueue` the first time; None for a request that is not known."""
        batch = self.batches.get(request_id)
        if batch is None:
            return None
        if not batch.asked:
            batch.asked = True
            return [
                {"index": index, "status": "enqueue", "subrequestId": sub_id}
                for index, (sub_id, _) in enumerate(batch.lines, start=1)
            ]
        if batch.results is None:
            batch.results = [self._result(index, *line, now) for index, line in enumerate(batch.lines, start=1)]
        return batch.results

    def tell(self, form: object, now: datetime) -> Sequence[Problem]:
        """A citizen's own change, by the registry's own ways: no rule of ours holds it up."""
        fields = dict(form) if isinstance(form, dict) else {}
        source = fields.pop("source", "IYS_WEB")
        consent = read({"source": "HS_WEB", "recipientType": "BIREYSEL", **fields}, now)
        if isinstance(consent, list):
            return consent
        self.known[consent.key] = consent
        self.changes.append(
            {
                **consent.body(),
                "source": source,
                "creationDate": _date(now),
                "transactionId": str(fields.get("transactionId") or uuid.uuid4()),
            }
        )
        return []

    def changes_after(self, after: str | None, limit: int) -> dict[str, object]:
        start = int(after.partition("_")[2]) if after else 0
        found = self.changes[start : start + limit]
        return {"after": f"sim_{start + len(found)}", "list": found}

    def _result(self, index: int, sub_id: str, form: object, now: datetime) -> dict[str, object]:
        written = self.write(form, now)
        base: dict[str, object] = {"index": index, "subrequestId": sub_id}
        if isinstance(written, Written):
            return {**base, "status": "success", **written.body()}
        first = written[0]
        return {**base, "status": "failure", "error": {"code": first.code, "message": first.message}}


def _date(now: datetime) -> str:
    return (now + ZONE).strftime("%Y-%m-%d %H:%M:%S")
