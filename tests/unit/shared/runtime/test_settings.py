"""Settings that would be wrong at night are refused at the start."""

import pytest
from pydantic import ValidationError

from shared.content.profile import PROFILES
from shared.runtime.settings import LocaleSettings


def test_the_default_zone_is_a_name_T4() -> None:
    assert LocaleSettings(time_zone="Europe/Berlin").time_zone == "Europe/Berlin"
    for wrong in ("+03:00", "Europe/Constantinople", "istanbul", ""):
        with pytest.raises(ValidationError, match="IANA"):
            LocaleSettings(time_zone=wrong)


def test_the_profile_of_marketing_is_one_that_there_is() -> None:
    assert {LocaleSettings(marketing_profile=name).marketing_profile for name in ("TR", "EU", "NONE")} == set(PROFILES)
    with pytest.raises(ValidationError, match="TR"):
        LocaleSettings.model_validate({"marketing_profile": "US"})
