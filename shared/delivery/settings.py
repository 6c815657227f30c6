"""Settings of e-mail that is made when it is sent (`ULAK_EMAIL_*`)."""

from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config


class EmailSettings(BaseSettings):
    """How much a mail may weigh. In transit files are a third larger (base64); large mailboxes take 25 MB in all."""

    model_config = settings_config("ULAK_EMAIL_")

    attachment_max_bytes: int = Field(default=10 * 2**20, ge=1, description="Largest file that a mail may carry.")
    attachments_total_max_bytes: int = Field(
        default=16 * 2**20, ge=1, description="Largest sum of the files of one mail; a larger mail is FAILED."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.attachment_max_bytes > self.attachments_total_max_bytes:
            raise ValueError("ULAK_EMAIL_ATTACHMENT_MAX_BYTES is above ULAK_EMAIL_ATTACHMENTS_TOTAL_MAX_BYTES")
        return self
