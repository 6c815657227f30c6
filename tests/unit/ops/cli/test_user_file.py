"""User files: profiles as they will be loaded, and mistakes told without repeating an address."""

from importlib.resources import files
from pathlib import Path

import pytest

from ops.cli.user_file import read_users
from shared.core.address import parse_email
from shared.postgres.recipient import DeviceProfile, PreferenceProfile
from shared.wire.channel import DEFAULT_CHANNELS, Category


def test_the_sample_users() -> None:
    users, problems = read_users(Path(str(files("ops.demo") / "sample" / "users.yaml")), DEFAULT_CHANNELS)
    assert problems == []
    ayse, deniz = users
    assert (ayse.external_id, ayse.email, ayse.phone, ayse.locale, ayse.time_zone) == (
        "7",
        parse_email("ayse@example.com"),
        "+905321234567",
        "tr-TR",
        "Europe/Istanbul",
    )
    assert [device.platform for device in ayse.devices] == ["IOS", "ANDROID"]
    assert len(bytes.fromhex(ayse.devices[0].token)) == 32
    assert deniz.preferences == (PreferenceProfile(Category.TRANSACTIONAL, "PUSH", enabled=False),)


def test_ndjson(tmp_path: Path) -> None:
    path = tmp_path / "users.ndjson"
    path.write_text(
        '{"userId": "a", "phone": "0532 123 45 67"}\n\n'
        '{"userId": "b", "devices": [{"token": "t", "platform": "WEB"}]}\n'
    )
    users, problems = read_users(path, DEFAULT_CHANNELS)
    assert problems == []
    assert [user.external_id for user in users] == ["a", "b"]
    assert users[0].phone == "+905321234567"
    assert users[1].devices == (DeviceProfile("t", "WEB"),)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param("{", "line 1: not JSON", id="json"),
        pytest.param('{"email": "a@example.com"}', "line 1, userId: ", id="no-id"),
        pytest.param(
            '{"userId": "a", "email": "secret-at-example"}', "line 1, email: not an e-mail address", id="email"
        ),
        pytest.param('{"userId": "a", "phone": "secret"}', "line 1, phone: letters in a phone number", id="phone"),
        pytest.param('{"userId": "a", "timeZone": "Secret/Town"}', "line 1, timeZone: not a time zone", id="zone-T4"),
        pytest.param(
            '{"userId": "a", "devices": [{"token": "secret", "platform": "TV"}]}',
            "line 1, devices.0.platform",
            id="platform",
        ),
        pytest.param(
            '{"userId": "a", "preferences": {"MARKETING": {"FAX": true}}}', "unknown channel 'FAX'", id="channel"
        ),
        pytest.param('{"userId": "a", "hobby": "secret"}', "line 1, hobby: ", id="unknown-field"),
    ],
)
def test_a_mistake_is_told_by_line_and_field(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "users.ndjson"
    path.write_text(line)
    users, problems = read_users(path, DEFAULT_CHANNELS)
    assert users == []
    assert len(problems) == 1
    assert problem in str(problems[0])
    assert "secret" not in str(problems[0]).lower()


def test_yaml_that_is_no_list(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    path.write_text("userId: 7\n")
    assert "expected a list" in str(read_users(path, DEFAULT_CHANNELS)[1][0])
