"""The quotas that hold now: a provider account's settings, and what operators have set instead (`ulak quota set`)."""

from collections.abc import Callable, Iterator, Mapping

from shared.core.control import Controls, QuotaOverride
from shared.redis_store.token_bucket import Quota

ACCOUNT = ""
"""The scope that is a whole account."""


def quota_of(account: str, own: Quota | None, override: QuotaOverride | None) -> Quota | None:
    """What holds for an account: own are its settings. None: any number. Pure.

    Where only the rate is overridden, the reserve keeps its part of it.
    """
    if override is None or (override.per_second is None and own is None):
        return own
    per_second = override.per_second
    if per_second is None:
        assert own is not None
        per_second = own.per_second
    part = 0.0 if own is None else own.reserve_per_second / own.per_second
    reserve = per_second * part if override.reserve_per_second is None else override.reserve_per_second
    # Two overrides may have come one after the other: somebody beside the critical class must get something.
    return Quota(account, per_second, reserve if reserve < per_second else per_second * part)


class LiveQuotas(Mapping[str, Quota]):
    """By account, as of now: a change acts with the next tokens that are taken. Costs a look at the revision.

    controls: what operators say at this moment.
    """

    def __init__(self, own: Mapping[str, Quota], controls: Callable[[], Controls]) -> None:
        self._own = own
        self._controls = controls
        self._revision: int | None = None
        self._now: Mapping[str, Quota] = own

    def __getitem__(self, account: str) -> Quota:
        return self._current()[account]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    def _current(self) -> Mapping[str, Quota]:
        controls = self._controls()
        if controls.revision != self._revision:
            overrides = {account: each for (account, scope), each in controls.quotas.items() if scope == ACCOUNT}
            found = {
                account: quota_of(account, self._own.get(account), overrides.get(account))
                for account in self._own.keys() | overrides.keys()
            }
            self._now = {account: quota for account, quota in found.items() if quota is not None}
            self._revision = controls.revision
        return self._now
