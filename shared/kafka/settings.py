"""Settings of every Kafka client, from `ULAK_KAFKA_*`, and the client options derived from them (pure)."""

import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings

from shared.kafka.error import UnsafeOptionError
from shared.runtime.settings import settings_config
from shared.wire.topic import TopicNames

REFUSED_CONSUMER_OPTIONS: Final[Mapping[str, str]] = {
    "enable.auto.commit": "offsets are committed after the work is durable, never by the clock (K1)",
    "enable.auto.offset.store": "a stored offset could be committed before its message is worked on (K1)",
    "group.id": "the group is named by the service",
    "auto.offset.reset": "anything but `earliest` skips messages when offsets are gone (K8)",
    "partition.assignment.strategy": "pauses and in-flight work survive a rebalance only with cooperative-sticky (K5)",
}
REFUSED_PRODUCER_OPTIONS: Final[Mapping[str, str]] = {
    "enable.idempotence": "without it a retry may write a message twice or out of order (K10)",
    "acks": "an acknowledged message must be on all in-sync replicas before its offset moves",
    "request.required.acks": "an acknowledged message must be on all in-sync replicas before its offset moves",
    "transactional.id": "Ulak's input offset is its outbox; two producers with one id would fence each other",
    "delivery.report.only.error": "every delivery report is awaited",
}


class KafkaSettings(BaseSettings):
    """How to reach Kafka, and the clients' limits. Times in milliseconds where librdkafka's options are.

    The defaults for session, heartbeat and poll interval are architecture.md section 3's. `consumer_options` and
    `producer_options` (JSON objects) pass any other librdkafka option; those that break a promise are refused.
    """

    model_config = settings_config("ULAK_KAFKA_")

    bootstrap_servers: str = Field(min_length=1, description="Brokers to begin with: host:port, comma-separated.")
    topic_prefix: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9._-]*$",
        max_length=100,
        description="Start of every topic's and group's name, so that several installations can share a cluster.",
    )
    security_protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = Field(
        default="plaintext", description="How brokers are spoken to."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="With sasl_*: how to log in."
    )
    sasl_username: str | None = Field(default=None, description="With sasl_*: as whom.")
    sasl_password: SecretStr | None = Field(default=None, description="With sasl_*: the password.")
    ssl_ca_location: str | None = Field(
        default=None, description="File or folder of the CAs that brokers are checked by."
    )
    ssl_certificate_location: str | None = Field(default=None, description="File of the client's certificate.")
    ssl_key_location: str | None = Field(default=None, description="File of the client's key.")
    ssl_key_password: SecretStr | None = Field(default=None, description="Password of the client's key.")

    session_timeout_ms: int = Field(default=30_000, ge=6_000, description="Silence after which a member is given up.")
    heartbeat_interval_ms: int = Field(
        default=10_000, ge=100, description="Time between heartbeats; at most a third of the session."
    )
    max_poll_interval_ms: int = Field(
        default=300_000, ge=6_000, description="Longest time between polls; polling goes on while handlers work."
    )
    commit_interval_ms: int = Field(default=200, ge=10, le=60_000, description="Time between commits of offsets.")
    queued_min_messages: int = Field(default=10_000, ge=1, description="Messages fetched ahead, per partition.")
    queued_max_kbytes: int = Field(
        default=16_384, ge=1_024, description="Limit of what is fetched ahead, per consumer."
    )

    linger_ms: int = Field(default=5, ge=0, le=1_000, description="How long a record waits for company.")
    compression: Literal["none", "lz4", "zstd", "snappy", "gzip"] = Field(
        default="lz4", description="Compression of produced batches."
    )
    queue_buffering_max_messages: int = Field(
        default=100_000, ge=1, description="Records waiting in the local queue; beyond it publishing waits (K9)."
    )
    queue_buffering_max_kbytes: int = Field(default=262_144, ge=1_024, description="The same in KiB.")
    delivery_timeout_ms: int = Field(
        default=30_000, ge=1_000, description="How long a record is tried before its publish fails."
    )
    missing_topic_timeout_ms: int = Field(
        default=10_000, ge=0, description="How long a record waits for a topic that no broker knows."
    )
    request_timeout_sec: float = Field(default=15.0, gt=0, description="Limit of one administration request.")

    consumer_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Other librdkafka options of consumers, as a JSON object."
    )
    producer_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Other librdkafka options of producers, as a JSON object."
    )

    @property
    def names(self) -> TopicNames:
        """Topics and groups with this installation's prefix."""
        return TopicNames(self.topic_prefix)

    @field_validator("consumer_options", "producer_options")
    @classmethod
    def _safe(cls, options: dict[str, Any], info: Any) -> dict[str, Any]:
        refused = REFUSED_CONSUMER_OPTIONS if info.field_name == "consumer_options" else REFUSED_PRODUCER_OPTIONS
        _refuse(options, refused)
        return options

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.session_timeout_ms < 3 * self.heartbeat_interval_ms:
            raise ValueError(
                "ULAK_KAFKA_HEARTBEAT_INTERVAL_MS must be at most a third of ULAK_KAFKA_SESSION_TIMEOUT_MS, "
                "or one lost heartbeat evicts the member; "
                f"they are {self.heartbeat_interval_ms} and {self.session_timeout_ms}"
            )
        if self.max_poll_interval_ms < self.session_timeout_ms:
            raise ValueError("ULAK_KAFKA_MAX_POLL_INTERVAL_MS must not be below ULAK_KAFKA_SESSION_TIMEOUT_MS")
        if self.security_protocol.startswith("sasl") and not (
            self.sasl_mechanism and self.sasl_username and self.sasl_password
        ):
            raise ValueError(
                f"ULAK_KAFKA_SECURITY_PROTOCOL={self.security_protocol} needs ULAK_KAFKA_SASL_MECHANISM, "
                "ULAK_KAFKA_SASL_USERNAME and ULAK_KAFKA_SASL_PASSWORD"
            )
        return self


def _refuse(options: Mapping[str, Any], refused: Mapping[str, str]) -> None:
    for name, reason in refused.items():
        if name in options:
            raise UnsafeOptionError(f"Kafka option {name!r} cannot be set: {reason}. Remove it.")


def _clear(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def client_options(settings: KafkaSettings, client_id: str) -> dict[str, Any]:
    """Options that consumers, producers and the admin client share; logs go to `ulak.kafka` of the standard logging."""
    options: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap_servers,
        "client.id": client_id,
        "security.protocol": settings.security_protocol,
        "socket.keepalive.enable": True,
        "logger": logging.getLogger("ulak.kafka"),
        "log_level": 4,  # syslog's warning
    }
    optional: dict[str, str | None] = {
        "sasl.mechanism": settings.sasl_mechanism,
        "sasl.username": settings.sasl_username,
        "sasl.password": _clear(settings.sasl_password),
        "ssl.ca.location": settings.ssl_ca_location,
        "ssl.certificate.location": settings.ssl_certificate_location,
        "ssl.key.location": settings.ssl_key_location,
        "ssl.key.password": _clear(settings.ssl_key_password),
    }
    return options | {name: value for name, value in optional.items() if value}


def consumer_options(settings: KafkaSettings, group: str) -> dict[str, Any]:
    """Options of a consumer of `group` (bare name). Raises UnsafeOptionError for an override that loses messages."""
    _refuse(settings.consumer_options, REFUSED_CONSUMER_OPTIONS)
    full_group = settings.names.full(group)
    return (
        client_options(settings, full_group)
        | {
            "session.timeout.ms": settings.session_timeout_ms,
            "heartbeat.interval.ms": settings.heartbeat_interval_ms,
            "max.poll.interval.ms": settings.max_poll_interval_ms,
            "queued.min.messages": settings.queued_min_messages,
            "queued.max.messages.kbytes": settings.queued_max_kbytes,
            # The default of one second would stall a partition each time its read-ahead is full.
            "fetch.queue.backoff.ms": 20,
            # A topic that was missing is found soon after `ulak topics apply`, not after five minutes.
            "topic.metadata.refresh.interval.ms": 15_000,
        }
        | settings.consumer_options
        | {
            "group.id": full_group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
        }
    )


def producer_options(settings: KafkaSettings, name: str) -> dict[str, Any]:
    """Options of the producer `name`. Raises UnsafeOptionError for an override that loses or repeats messages."""
    _refuse(settings.producer_options, REFUSED_PRODUCER_OPTIONS)
    return (
        client_options(settings, settings.names.full(name))
        | {
            "linger.ms": settings.linger_ms,
            "compression.type": settings.compression,
            "queue.buffering.max.messages": settings.queue_buffering_max_messages,
            "queue.buffering.max.kbytes": settings.queue_buffering_max_kbytes,
            "delivery.timeout.ms": settings.delivery_timeout_ms,
            "topic.metadata.propagation.max.ms": settings.missing_topic_timeout_ms,
            # Room for the headers of a dead letter around a message of the broker's default limit (1,048,588 bytes).
            "message.max.bytes": 1_048_588,
        }
        | settings.producer_options
        | {"enable.idempotence": True, "acks": "all"}
    )
