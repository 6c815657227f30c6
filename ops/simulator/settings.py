"""The simulator's settings: `ULAK_SIMULATOR_*`, or the options of `ulak simulator`."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from ops.simulator.receipt import ReceiptMode, ReceiptPolicy

Port = Annotated[int, Field(ge=0, le=65535)]
_ACCOUNT_SID = re.compile(r"^AC[0-9a-f]{32}$")


class SimulatorSettings(BaseSettings):
    """Ports of 0 are chosen by the system and told when the simulator is ready.

    state_dir: where keys and certificates are kept; a temporary folder, removed at the end, if there is none.
    seed: of everything random (faults' probability, shuffled receipts), so that a run can be repeated.
    """

    model_config = SettingsConfigDict(env_prefix="ULAK_SIMULATOR_", frozen=True, use_attribute_docstrings=True)

    host: str = "127.0.0.1"
    port: Port = 0
    apns_port: Port = 0
    fcm_port: Port = 0
    smtp_port: Port = 0
    state_dir: Path | None = None
    seed: int = 0

    ledger_entries: Annotated[int, Field(ge=1)] = 200_000
    ledger_bytes: Annotated[int, Field(ge=1)] = 256 * 1024 * 1024
    max_concurrent_streams: Annotated[int, Field(ge=1)] = 1000

    apns_key_id: Annotated[str, Field(pattern=r"^[A-Z0-9]{10}$")] = "SIMKEY0001"
    apns_team_id: Annotated[str, Field(pattern=r"^[A-Z0-9]{10}$")] = "SIMTEAM001"
    apns_topics: str = ""
    """Bundle ids the key may send to, separated by commas; empty: any."""

    fcm_project: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$")] = "ulak-simulator"
    fcm_token_lifetime_sec: Annotated[int, Field(ge=1)] = 3600

    twilio_account_sid: str = "AC" + "5" * 32
    twilio_auth_token: str | None = None
    """Made and kept in the state folder if not given."""

    vonage_api_key: Annotated[str, Field(pattern=r"^[0-9a-z]{8}$")] = "51111111"
    netgsm_usercode: str = "8500000000"
    netgsm_msgheader: Annotated[str, Field(min_length=3, max_length=11)] = "SHOP"

    iys_username: str = "simulator"
    iys_password: str = "simulator"  # noqa: S105 - of the simulator, on loopback alone
    iys_code: str = "100001"
    iys_brand_code: str = "100001"

    ses_access_key_id: str = "AKIASIMULATOR0000001"
    ses_region: str = "eu-central-1"

    mailgun_domain: str = "shop.example"

    smtp_hostname: str = "localhost"
    smtp_max_size_bytes: Annotated[int, Field(ge=64 * 1024)] = 25 * 1024 * 1024
    smtp_max_recipients: Annotated[int, Field(ge=1)] = 100
    smtp_user: str | None = None
    smtp_password: str | None = None
    smtp_require_tls: bool = False
    smtp_require_auth: bool = False

    receipt_mode: ReceiptMode = ReceiptMode.AUTOMATIC
    receipt_delay_ms: Annotated[int, Field(ge=0)] = 20
    receipt_late_delay_ms: Annotated[int, Field(ge=0)] = 5_000

    @field_validator("host")
    @classmethod
    def _only_loopback(cls, host: str) -> str:
        try:
            loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            raise ValueError("host must be a loopback address, as 127.0.0.1: the simulator takes orders from anyone")
        return host

    @field_validator("twilio_account_sid")
    @classmethod
    def _real_form(cls, sid: str) -> str:
        if not _ACCOUNT_SID.match(sid):
            raise ValueError("twilio_account_sid must be AC and 32 lower-case hex digits, as Twilio's are")
        return sid

    @model_validator(mode="after")
    def _auth_only_over_tls(self) -> Self:
        if self.smtp_password is not None and self.smtp_user is None:
            raise ValueError("smtp_password is set without smtp_user: set both or none")
        return self

    @property
    def receipt_policy(self) -> ReceiptPolicy:
        return ReceiptPolicy(
            mode=self.receipt_mode, delay_ms=self.receipt_delay_ms, late_delay_ms=self.receipt_late_delay_ms
        )

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic.strip() for topic in self.apns_topics.split(",") if topic.strip())
