"""Writing the small files of a stack so that a crash or a reader at the same time never sees half of one."""

import os
import secrets
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step, readable by its owner only: these files hold passwords and keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def secret_in(path: Path) -> str:
    """The secret kept in `path`, made at the first call: 32 hexadecimal digits, safe inside a URL."""
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    secret = secrets.token_hex(16)
    write_private(path, secret)
    return secret


def forget(path: Path) -> None:
    """Remove a file if it is there."""
    path.unlink(missing_ok=True)


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a log; none when there is no such file. Reads at most the last 256 KiB."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 256 * 1024))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-lines:] if lines > 0 else []
