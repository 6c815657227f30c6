"""Which tests run on one worker of xdist, one after another: those of a folder that share a server too costly for two.

By folder, not by xdist's groups: with pytest 9.2 those are ignored without a word (pytest-dev/pytest-xdist#1386).
"""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

TOGETHER: Final = ("tests/contract/storage/", "tests/e2e/")


class FolderScheduling(LoadScopeScheduling):
    """Folders that stay together begin first; all other tests go one by one to whichever worker is free."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid)
