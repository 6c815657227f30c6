"""A call of one of the functions that `ulak outbox ddl` installs, and its text for each way to write parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Value = str | bytes | bool | None
SqlType = Literal["text", "bytea", "boolean", "uuid", "jsonb", "interval"]
_PASSED_AS_IS: Final = frozenset({"text", "bytea", "boolean"})


class Hidden(bytes):
    """Bytes whose repr tells their number alone: SQLAlchemy quotes parameters in its errors, and those are logged."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


@dataclass(frozen=True, slots=True)
class Call:
    """arguments: parameter -> its SQL type and value. repr shows no value.

    Only text, bytea and boolean travel; the rest is cast from text in the server, because callers may have taught
    their driver another form of uuid, jsonb or interval. The answer is text for the same reason.
    """

    function: str
    arguments: Mapping[str, tuple[SqlType, Value]] = field(repr=False)

    def numbered(self) -> tuple[str, tuple[Value, ...]]:
        """With $1, $2 (asyncpg)."""
        places = {name: f"${number}" for number, name in enumerate(self.arguments, start=1)}
        return self._text(places.__getitem__), tuple(self.values().values())

    def pyformat(self) -> str:
        """With %(name)s (psycopg, Django)."""
        return self._text(lambda name: f"%({name})s")

    def named(self) -> str:
        """With :name (SQLAlchemy)."""
        return self._text(lambda name: f":{name}")

    def values(self) -> dict[str, Value]:
        """Parameter -> value."""
        return {name: value for name, (_, value) in self.arguments.items()}

    def _text(self, place: Callable[[str], str]) -> str:
        arguments = ", ".join(f"{name} => {_cast(place(name), kind)}" for name, (kind, _) in self.arguments.items())
        return f"SELECT CAST({self.function}({arguments}) AS text)"


def _cast(place: str, kind: SqlType) -> str:
    return f"CAST({place} AS {kind})" if kind in _PASSED_AS_IS else f"CAST(CAST({place} AS text) AS {kind})"
