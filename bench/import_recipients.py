"""Recipients with an e-mail address, a phone number and a device each."""

from typing import Any

from bench.import_lines import import_bench


def line(number: int) -> dict[str, Any]:
    return {
        "userId": f"u{number}",
        "email": f"user{number}@example.com",
        "phone": f"+90532{number:07}",
        "locale": "tr-TR",
        "timeZone": "Europe/Istanbul",
        "attributes": {"segment": number % 7},
        "devices": [{"token": f"{number:064x}", "platform": "IOS"}],
    }


BENCH = import_bench("recipients", line)
