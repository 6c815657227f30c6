"""The pages' language, and that nothing foreign is in them."""

import pytest

from services.me.page import asking, done, language, lost


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", "en"),
        ("tr", "tr"),
        ("tr-TR,tr;q=0.9,en-US;q=0.8,en;q=0.7", "tr"),
        ("en-US,en;q=0.9,tr;q=0.8", "en"),
        ("de-DE, tr;q=0.5", "tr"),
        ("de-DE", "en"),
        ("*", "en"),
        ("tr;q=0", "en"),
        ("tr;q=0.1, en;q=0.2", "en"),
        ("TR-tr", "tr"),
        (";;;,q=1,<script>", "en"),
        ("tr," * 5000, "tr"),
    ],
)
def test_the_language_is_the_browsers(header: str, chosen: str) -> None:
    assert language(header) == chosen


def test_pages_bring_nothing_from_elsewhere_and_run_nothing() -> None:
    for page, status in ((asking("tr"), 200), (done("en"), 200), (lost("tr"), 404)):
        text = bytes(page.body).decode()
        assert page.status_code == status
        assert "script" not in text
        assert "http" not in text
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "frame-ancestors 'none'" in policy
    assert '<form method="post">' in bytes(asking("en").body).decode()
