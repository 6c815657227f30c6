"""What every e-mail provider's settings have in common: who a mail is from whose type names no sender."""

from email_validator import EmailNotValidError, validate_email
from pydantic import Field, field_validator

from shared.core.direction import turning_in
from shared.core.ports import SenderProfile
from shared.providers.settings import ProviderSettings


class EmailSettings(ProviderSettings):
    """Base of an e-mail provider's settings; each sets its prefix, and refuses to be configured without an address."""

    from_address: str | None = Field(default=None, description="Sender of mails whose type names none.")
    from_name: str = Field(default="", description="Display name in their From header.")

    @property
    def profile(self) -> SenderProfile:
        """The sender that these settings name; only of a configured provider."""
        assert self.from_address is not None
        return SenderProfile(self.from_address, self.from_name)

    @field_validator("from_name")
    @classmethod
    def _is_read_as_written(cls, value: str) -> str:
        if (turning := turning_in(value)) is not None:
            raise ValueError(f"holds {turning}, which turns the text around it over: leave it out")
        return value

    @field_validator("from_address")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            return validate_email(value, check_deliverability=False, test_environment=True).ascii_email
        except EmailNotValidError:
            raise ValueError("is not an e-mail address with an ASCII local part") from None
