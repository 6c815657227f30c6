"""What a requeue came to, or would come to, for one kind of rows in one source."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from ops.cli.text import number

_SAMPLE: Final = 10
_REFUSED_SAMPLE: Final = 3


@dataclass(slots=True)
class Refused:
    """How many rows one reason keeps where they are, and the first of them."""

    count: int = 0
    sample: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """requeued: on their way again. followed: their mail went another way in the ledger meanwhile, and they are told
    that. missed: changed by somebody else between the look and the deed. In a dry run: what would be.

    sample: the first that are requeued, each with its id, its template or topic, and the error it had. found: of the
    ids that were named, those that are here.
    """

    requeued: int = 0
    followed: int = 0
    missed: int = 0
    refused: dict[str, Refused] = field(default_factory=dict)
    sample: list[dict[str, str | None]] = field(default_factory=list)
    found: set[UUID] = field(default_factory=set)

    def refuse(self, why: str, id_: str) -> None:
        reason = self.refused.setdefault(why, Refused())
        reason.count += 1
        if len(reason.sample) < _REFUSED_SAMPLE:
            reason.sample.append(id_)

    def show(self, id_: str, name: str, error: str | None) -> None:
        """For the sample, while there is room in it."""
        if len(self.sample) < _SAMPLE:
            self.sample.append({"id": id_, "name": name, "error": error})

    @property
    def clean(self) -> bool:
        """Whether nothing was left where it is."""
        return not self.refused and not self.missed

    def body(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "requeued": self.requeued,
            "followed": self.followed,
            "missed": self.missed,
            "refused": [
                {"why": why, "count": reason.count, "sample": reason.sample} for why, reason in self.refused.items()
            ],
            "sample": self.sample,
        }

    def lines(self, noun: str, *, done: bool) -> Iterator[str]:
        """noun: event or e-mail."""
        if self.requeued:
            yield f"  {'on the way again' if done else 'would go again'}: {number(self.requeued, noun)}"
        for row in self.sample:
            yield f"    {row['id']}  {row['name']}  {row['error'] or 'no error was kept'}"
        if self.followed:
            told = "told how they end" if done else "would be told how they end"
            yield f"  {told}, which the ledger knows better than their rows: {number(self.followed, noun)}"
        if self.missed:
            yield f"  changed by somebody else meanwhile: {number(self.missed, noun)}"
        for why, reason in self.refused.items():
            yield f"  cannot go again: {number(reason.count, noun)} (such as {reason.sample[0]}): {why}"
