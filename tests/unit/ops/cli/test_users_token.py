"""`ulak users token`: what the user's API takes, by the settings that `ulak dev env` prints."""

import jwt
import pytest
from typer.testing import CliRunner

from ops.cli.users import app
from services.me.token import Identity, SecretKeys, TokenReader

SETTINGS = {
    "ULAK_ME_JWT_SECRET": "0123456789abcdef0123456789abcdef",
    "ULAK_ME_JWT_ISSUER": "ulak-dev",
    "ULAK_ME_JWT_AUDIENCE": "ulak",
}


async def test_the_token_speaks_for_the_user() -> None:
    printed = CliRunner().invoke(app, ["token", "7"], env=SETTINGS)
    assert printed.exit_code == 0, printed.output
    keys = SecretKeys(SETTINGS["ULAK_ME_JWT_SECRET"].encode())
    reader = TokenReader(keys, issuer="ulak-dev", audience="ulak", leeway_sec=0)
    token = printed.output.strip()
    expires_at = jwt.decode(token, options={"verify_signature": False})["exp"]
    assert await reader.read(token) == Identity("7", expires_at)


@pytest.mark.parametrize("missing", SETTINGS)
def test_a_setting_that_is_missing_is_named(missing: str) -> None:
    printed = CliRunner().invoke(app, ["token", "7"], env=SETTINGS | {missing: ""})
    assert printed.exit_code == 2
    assert missing.removeprefix("ULAK_ME_JWT_").lower() in printed.output
