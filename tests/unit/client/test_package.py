"""What other teams install: one wheel that needs nothing, and that imports neither its extras nor Ulak."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

CLIENT = Path(__file__).parents[3] / "clients" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=CLIENT, check=True, capture_output=True, timeout=60)
    (built,) = folder.glob("*.whl")
    return built


def without_packages(wheel: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code on the wheel and the standard library alone."""
    program = f"import sys; sys.path.insert(0, {str(wheel)!r})\n{code}"
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", program]
    return subprocess.run(command, check=False, capture_output=True, timeout=60, encoding="utf-8")


def test_the_wheel_holds_the_package_its_types_and_its_extras(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("/METADATA"))
    assert "ulak_client/py.typed" in names
    assert all(name.startswith(("ulak_client/", "ulak_client-0.2.0.dist-info/")) for name in names)
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert needed
    assert all("; extra ==" in line for line in needed)


def test_it_imports_and_makes_a_row_without_any_package(wheel: Path) -> None:
    done = without_packages(
        wheel,
        "import ulak_client\n"
        "ulak_client.Event(id='1', source='/s', type='T', data={})\n"
        "ulak_client.Email(to=['a@example.com'], template='T')\n"
        "print(ulak_client.__version__, ulak_client.__file__)",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0.2.0 ")
    assert str(wheel) in done.stdout


@pytest.mark.parametrize(("module", "extra"), [("sealing", "sealing"), ("http", "http")])
def test_an_extra_that_is_not_there_is_named(module: str, extra: str, wheel: Path) -> None:
    done = without_packages(wheel, f"import ulak_client.{module}")
    assert f"pip install 'ulak-client[{extra}]'" in done.stderr


def test_importing_the_client_imports_no_driver_no_extra_and_nothing_of_ulak() -> None:
    code = "import sys, ulak_client, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60, encoding="utf-8")
    for unwanted in ("httpx", "tenacity", "cryptography", "asyncpg", "psycopg", "sqlalchemy", "django", "shared"):
        assert f'"{unwanted}"' not in done.stdout
