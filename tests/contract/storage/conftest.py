"""One S3 server per test run; each test has its own folder and its own beginning of keys."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.storage.place import FolderPlace, Place, S3Place
from tests.contract.storage.seaweed import Seaweed, running_seaweed


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with running_seaweed(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture
def s3_place(seaweed: Seaweed) -> S3Place:
    return S3Place(seaweed.url, f"t{secrets.token_hex(5)}")


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return FolderPlace(tmp_path)
    s3_place: S3Place = request.getfixturevalue("s3_place")
    return s3_place
