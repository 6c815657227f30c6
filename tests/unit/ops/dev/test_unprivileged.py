"""What an account that owns nothing can reach, and where things go that it cannot."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.dev.errors import StackError
from ops.dev.processes import User
from ops.dev.servers.unprivileged import OUTSIDE, data_folder, is_data_outside, is_open_to_all, owned_by_root

NOBODY = User(65_534, 65_534)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    yield folder
    folder.chmod(0o755)


def test_a_closed_folder_on_the_way_closes_what_is_below(closed: Path) -> None:
    assert not is_open_to_all(closed / "postgres" / "data")
    assert is_open_to_all(Path("/usr/bin/env"))


def test_data_stays_in_the_clone_unless_its_account_cannot_get_there(closed: Path) -> None:
    assert data_folder(closed, None) == closed / "postgres" / "data"
    outside = data_folder(closed, NOBODY)
    assert is_data_outside(outside)
    assert outside == data_folder(closed, NOBODY)
    assert outside != data_folder(closed.parent, NOBODY)


@pytest.mark.parametrize(
    "path", [OUTSIDE / "data", OUTSIDE / "other" / "data", Path("/ulak-data-1/data"), OUTSIDE / "ulak-data-1" / "x"]
)
def test_nothing_else_is_taken_for_data_outside(path: Path) -> None:
    assert not is_data_outside(path)


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    mine = owned_by_root(tmp_path / "mine")
    assert stat.S_IMODE(mine.stat().st_mode) == 0o755
    mine.chmod(0o777)
    with pytest.raises(StackError, match="may be written by others"):
        owned_by_root(mine)
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(StackError, match="belongs to somebody else"):
        owned_by_root(tmp_path / "link")
