"""The demo as a newcomer runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.dev.environment import SERVER_SETTINGS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


def test_demo_once_tells_the_whole_story_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in SERVER_SETTINGS.values()}
    finished = subprocess.run(
        [sys.executable, "-m", "ops.cli", "demo", "--once"],
        env={**environment, "ULAK_STATE_DIR": str(tmp_path), "NO_COLOR": "1", "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    told = finished.stdout
    assert finished.returncode == 0, told + finished.stderr
    assert told.count("✓") == 8
    assert "Kargo A" in told
    assert "482913" in told
    assert "router-dlq" in told
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout.split()
    assert left == []
