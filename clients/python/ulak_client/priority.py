"""How urgent something is: each class has its own way through Ulak."""

from typing import Final, Literal, get_args

Priority = Literal["critical", "tx", "bulk", "low"]
_KNOWN: Final = get_args(Priority)


def check_priority(value: str) -> None:
    """ValueError for an unknown one."""
    if value not in _KNOWN:
        raise ValueError(f"priority {value!r} is unknown: use {', '.join(_KNOWN)}")
