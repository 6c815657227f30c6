"""What reached the simulator, in order. One entry per call, so that doubles are counted."""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import orjson

MAX_REFERENCES: Final = 1_000_000
"""References whose counts are kept; they outlive their entries, because a double may come long after the first."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One call as it came in.

    to: the first recipient; recipients: all of them (e-mail), else empty.
    content: JSON values, what was sent in the provider's terms.
    """

    to: str | None
    reference: str | None
    content: Mapping[str, object]
    recipients: tuple[str, ...] = ()

    @property
    def all_recipients(self) -> tuple[str, ...]:
        if self.recipients or self.to is None:
            return self.recipients
        return (self.to,)


@dataclass(frozen=True, slots=True)
class Result:
    """How a call ended.

    accepted: the provider took the message over, whether or not its reply got out.
    status: the HTTP status or SMTP code replied, None if the connection was cut without a reply.
    error: the provider's own name of the refusal, None if accepted.
    """

    accepted: bool
    status: int | None
    provider_message_id: str | None = None
    error: str | None = None
    fault_id: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """An arrival with its result; content is kept as JSON bytes, which is a fifth of the objects' size."""

    seq: int
    provider: str
    to: str | None
    recipients: tuple[str, ...]
    reference: str | None
    received_at: datetime
    result: Result
    content: bytes

    def meets(self, query: "Query") -> bool:
        return (
            (query.provider is None or self.provider == query.provider)
            and (query.reference is None or self.reference == query.reference)
            and (query.accepted is None or self.result.accepted == query.accepted)
            and (query.received_from is None or self.received_at >= query.received_from)
            and (query.to is None or self.to == query.to or query.to in self.recipients)
        )

    def as_json(self) -> dict[str, object]:
        return {
            "seq": self.seq,
            "provider": self.provider,
            "to": self.to,
            "reference": self.reference,
            "providerMessageId": self.result.provider_message_id,
            "receivedAt": self.received_at.isoformat(),
            "accepted": self.result.accepted,
            "status": self.result.status,
            "error": self.result.error,
            "fault": self.result.fault_id,
            "content": orjson.Fragment(self.content),
        }


@dataclass(frozen=True, slots=True)
class Query:
    """Which entries: those after `after_seq`, received at or after `received_from`, that meet all other fields."""

    provider: str | None = None
    to: str | None = None
    reference: str | None = None
    accepted: bool | None = None
    received_from: datetime | None = None
    after_seq: int = 0
    limit: int = 100


@dataclass(slots=True)
class Tally:
    """Calls of one reference."""

    calls: int = 0
    accepted: int = 0


@dataclass(slots=True)
class Ledger:
    """Entries in order of arrival, bounded by number and bytes (the oldest go first); counts are never dropped."""

    max_entries: int
    max_bytes: int
    _entries: OrderedDict[int, Entry] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _seq: int = 0
    _evicted: int = 0
    _outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    _statuses: dict[str, Counter[str]] = field(default_factory=dict)
    _references: OrderedDict[str, Tally] = field(default_factory=OrderedDict)
    _references_forgotten: int = 0
    _doubled: int = 0

    def add(self, provider: str, arrival: Arrival, result: Result, now: datetime) -> int:
        """Append one entry and return its sequence number, which only grows, also across `clear`."""
        self._seq += 1
        entry = Entry(
            self._seq,
            provider,
            arrival.to,
            arrival.recipients,
            arrival.reference,
            now,
            result,
            # orjson hands out its buffer of 4 KiB and more as it is: the copy is as long as the text.
            bytes(memoryview(orjson.dumps(arrival.content))),
        )
        self._entries[entry.seq] = entry
        self._bytes += len(entry.content)
        self._count(entry, 1)
        while self._entries and (len(self._entries) > self.max_entries or self._bytes > self.max_bytes):
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= len(oldest.content)
            self._evicted += 1
        return entry.seq

    def withdraw(self, seq: int, error: str) -> None:
        """Turn an accepted entry into one that was not processed: its stream fell to a GOAWAY before its reply."""
        entry = self._entries.get(seq)
        if entry is None or not entry.result.accepted:
            return
        self._count(entry, -1)
        result = replace(entry.result, accepted=False, status=None, provider_message_id=None, error=error)
        self._entries[seq] = replace(entry, result=result)
        self._count(self._entries[seq], 1)

    def _count(self, entry: Entry, by: int) -> None:
        result = entry.result
        outcomes = self._outcomes.setdefault(entry.provider, Counter())
        outcomes["calls"] += by
        outcomes["accepted" if result.accepted else "refused"] += by
        if result.status is None:
            outcomes["unanswered"] += by
        else:
            self._statuses.setdefault(entry.provider, Counter())[str(result.status)] += by
        if entry.reference is None:
            return
        tally = self._references.setdefault(entry.reference, Tally())
        doubled_before = tally.accepted > 1
        tally.calls += by
        tally.accepted += by if result.accepted else 0
        self._doubled += (tally.accepted > 1) - doubled_before
        if len(self._references) > MAX_REFERENCES:
            self._references.popitem(last=False)
            self._references_forgotten += 1

    def select(self, query: Query) -> tuple[list[Entry], bool]:
        """At most `query.limit` entries in order, and whether more follow."""
        found: list[Entry] = []
        for entry in self._after(query.after_seq):
            if not entry.meets(query):
                continue
            if len(found) == query.limit:
                return found, True
            found.append(entry)
        return found, False

    def _after(self, seq: int) -> Iterator[Entry]:
        if not self._entries:
            return
        first = next(iter(self._entries))
        # Sequence numbers in the ledger have no gaps, so a follower that polls need not walk what it has seen.
        for wanted in range(max(seq + 1, first), self._seq + 1):
            yield self._entries[wanted]

    def tally(self, reference: str) -> Tally:
        """Calls with this reference since the last `clear`, whether or not their entries are still kept."""
        return self._references.get(reference, Tally())

    def clear(self) -> None:
        """Forget entries and counts. Sequence numbers go on, so that a `since` held by a script stays right."""
        self._entries.clear()
        self._bytes = 0
        self._evicted = 0
        self._outcomes.clear()
        self._statuses.clear()
        self._references.clear()
        self._references_forgotten = 0
        self._doubled = 0

    def stats(self) -> dict[str, object]:
        """Counts per provider and outcome, and how many references were accepted more than once."""
        return {
            "providers": {
                provider: {
                    "calls": outcomes["calls"],
                    "accepted": outcomes["accepted"],
                    "refused": outcomes["refused"],
                    "unanswered": outcomes["unanswered"],
                    "byStatus": {status: count for status, count in self._statuses.get(provider, {}).items() if count},
                }
                for provider, outcomes in sorted(self._outcomes.items())
            },
            "references": {
                "distinct": len(self._references) + self._references_forgotten,
                "acceptedMoreThanOnce": self._doubled,
                "forgotten": self._references_forgotten,
            },
            "ledger": {"entries": len(self._entries), "bytes": self._bytes, "evicted": self._evicted, "seq": self._seq},
        }
