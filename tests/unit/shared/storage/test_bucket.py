import pytest

from shared.storage.bucket import bucket_endpoint


@pytest.mark.parametrize(
    ("endpoint", "path_style", "expected"),
    [
        ("https://s3.example.com", True, "https://s3.example.com"),
        ("https://s3.example.com", False, "https://ulak.s3.example.com"),
        ("http://127.0.0.1:9000", True, "http://127.0.0.1:9000"),
        ("http://minio.internal:9000", False, "http://ulak.minio.internal:9000"),
    ],
)
def test_the_bucket_is_in_the_host_unless_it_is_in_the_path(endpoint: str, path_style: bool, expected: str) -> None:
    assert bucket_endpoint(endpoint, "ulak", path_style=path_style) == expected
