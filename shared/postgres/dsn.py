"""Addresses of databases: what is one, and what may be shown of it."""

from urllib.parse import urlsplit


def is_dsn(text: str) -> bool:
    """Whether it is a URL of PostgreSQL's kind."""
    try:
        return urlsplit(text).scheme in {"postgresql", "postgres"}
    except ValueError:
        return False


def shown(dsn: str) -> str:
    """host:port/database of a DSN for messages; user and password are left out."""
    try:
        parts = urlsplit(dsn)
        place = f"{parts.hostname or 'local socket'}:{parts.port or 5432}"
    except ValueError:
        return "the server of ULAK_POSTGRES_DSN"
    return f"{place}{parts.path or '/'}"
