"""Consents to e-mail, each of another address, with a reference and evidence."""

from typing import Any

from bench.import_lines import import_bench


def line(number: int) -> dict[str, Any]:
    return {
        "address": f"user{number}@example.com",
        "channel": "EMAIL",
        "granted": True,
        "at": "2026-11-01T12:00:00+03:00",
        "source": "HS_WEB",
        "wordingVersion": "2026-03",
        "evidence": f"form {number}",
        "reference": f"web-{number}",
    }


BENCH = import_bench("consents", line)
