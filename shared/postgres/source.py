"""The databases that the relay reads: services' own, each with its own limits, beside Ulak's. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import orjson

from shared.postgres.dsn import is_dsn, shown

OWN: Final = "own"
"""The name of Ulak's own database where a source is named: in metrics, logs and commands."""
_LONGEST_NAME: Final = 100
_FIELDS: Final = {
    "name": "name",
    "dsn": "dsn",
    "application": "application",
    "poolSize": "pool_size",
    "batch": "batch",
    "pooled": "pooled",
    "listenDsn": "listen_dsn",
    "emailModelA": "email_model_a",
}


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One database with the producer schema (`ulak outbox ddl`). repr shows no DSN: it may hold a password.

    name: stable and unique; in metrics, logs and commands, and part of what makes an e-mail of this source known.
    application: the Ulak application that its e-mails are accounted to.
    pool_size: most connections for all but the critical class, which has two of its own; None: one per transaction.
    batch: outbox rows per transaction; None: the relay's.
    pooled: behind a pooler in transaction mode (case O5): no prepared statements, no LISTEN on this DSN.
    listen_dsn: a direct connection to LISTEN on, for a pooled source; without it such a source is polled.
    email_model_a: whether e-mails of model A are sent straight from its table.
    """

    name: str
    dsn: str = field(repr=False)
    application: str
    pool_size: int | None = None
    batch: int | None = None
    pooled: bool = False
    listen_dsn: str | None = field(default=None, repr=False)
    email_model_a: bool = True

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= _LONGEST_NAME or not self.name.isprintable():
            raise ValueError(f"a source's name has 1 to {_LONGEST_NAME} printable characters")
        for dsn in (self.dsn, *(() if self.listen_dsn is None else (self.listen_dsn,))):
            if not is_dsn(dsn):
                raise ValueError("each source is a DSN like postgresql://user:password@host:5432/database")
        if not self.application:
            raise ValueError(f"source {self.name}: its application has no name")
        for limit in (self.pool_size, self.batch):
            if limit is not None and not 1 <= limit <= 10_000:
                raise ValueError(f"source {self.name}: poolSize and batch are from 1 to 10000")
        if self.listen_dsn is not None and not self.pooled:
            raise ValueError(f"source {self.name}: listenDsn is for a pooled source, whose dsn cannot LISTEN")

    @property
    def direct_dsn(self) -> str | None:
        """Where LISTEN works; None: nowhere."""
        return self.listen_dsn if self.pooled else self.dsn


def parse_sources(text: str) -> tuple[SourceSpec, ...]:
    """Sources in order, the same one twice counts once: DSNs separated by commas or spaces, or a JSON list.

    An entry of the list is a DSN or an object with `name`, `dsn` and, where wanted, the other fields of SourceSpec in
    camel case. A DSN alone is named host:port/database. ValueError says what is wrong, and shows no DSN.
    """
    stripped = text.strip()
    entries: Sequence[Any] = _listed(stripped) if stripped.startswith("[") else stripped.replace(",", " ").split()
    specs = tuple(dict.fromkeys(_spec(entry) for entry in entries))
    names = [spec.name for spec in specs]
    for name in names:
        if name == OWN:
            raise ValueError(f"{OWN!r} is Ulak's own database, which is read anyway: name the source otherwise")
        if names.count(name) > 1:
            raise ValueError(f"two sources are named {name}: give each its own name")
    return specs


def row_fingerprint(source: str, row_id: UUID) -> bytes:
    """How an outbox row that was set aside is known in `dead_letters` (topic `outbox`)."""
    return hashlib.sha256(f"{source}|{row_id}".encode()).digest()


def _listed(text: str) -> Sequence[Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise ValueError("the list of sources is not JSON") from None  # the decoder's message quotes the text
    return found if isinstance(found, list) else [found]


def _spec(entry: Any) -> SourceSpec:
    if isinstance(entry, str):
        return SourceSpec(shown(entry), entry, shown(entry))
    if (
        not isinstance(entry, Mapping)
        or not isinstance(entry.get("name"), str)
        or not isinstance(entry.get("dsn"), str)
    ):
        raise ValueError(  # noqa: TRY004  a setting's value, as every other mistake in it
            'a source in the JSON list is a DSN or an object like {"name": "shop", "dsn": "postgresql://..."}'
        )
    for name, value in entry.items():
        if name not in _FIELDS:
            raise ValueError(f"source {entry['name']}: there is no field {name!r}, use {', '.join(_FIELDS)}")
        wanted: type = int if name in {"poolSize", "batch"} else bool if name in {"pooled", "emailModelA"} else str
        if type(value) is not wanted:
            raise ValueError(f"source {entry['name']}: {name} is not {_KINDS[wanted]}")
    given = {_FIELDS[name]: value for name, value in entry.items()}
    return SourceSpec(**{"application": entry["name"], **given})


_KINDS: Final[Mapping[type, str]] = {int: "a whole number", bool: "true or false", str: "a text"}
