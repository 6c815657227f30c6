"""Create the declared topics and compare what is there. Existing topics are reported, never altered."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

# Public names of this package, which re-exports them without `__all__`.
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from shared.kafka.error import TopicAdminError
from shared.kafka.settings import KafkaSettings, client_options
from shared.wire.topic import TopicSpec

_VISIBLE_TRIES: Final = 50
_BROKER_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting of an existing topic that is not as declared. topic is the full name."""

    topic: str
    setting: str
    declared: str
    actual: str


@dataclass(frozen=True, slots=True)
class TopicReport:
    """Full names, in the order of the declaration. `missing` is what `check` did not find; `apply` leaves none."""

    created: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    differing: tuple[Difference, ...] = ()

    @property
    def as_declared(self) -> bool:
        return not self.missing and not self.differing

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return asdict(self) | {"as_declared": self.as_declared}


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """What a broker says of one topic."""

    partitions: int
    configs: Mapping[str, str]


async def apply(
    settings: KafkaSettings, specs: Iterable[TopicSpec], *, replication_factor: int | None = None
) -> TopicReport:
    """Create the topics that are missing and report those that differ (partitions, retention, clean-up policy).

    replication_factor: of new topics; None for the broker's default. With 3 or more, two replicas must have a message
    before it is acknowledged. Two running at once is safe. Raises TopicAdminError.
    """
    return await _in_thread(_apply, settings, tuple(specs), replication_factor)


async def check(settings: KafkaSettings, specs: Iterable[TopicSpec]) -> TopicReport:
    """Report missing and differing topics, change nothing. Raises TopicAdminError."""
    return await _in_thread(_check, settings, tuple(specs))


def desired_configs(spec: TopicSpec, replication_factor: int | None) -> dict[str, str]:
    """The topic's own settings. Only `delete` keeps what was not read yet: a compacted topic would drop messages."""
    configs = {"retention.ms": str(spec.retention_ms), "cleanup.policy": "delete"}
    if replication_factor is not None and replication_factor >= 3:
        configs["min.insync.replicas"] = "2"
    return configs


def compare(
    specs: Sequence[TopicSpec], existing: Mapping[str, ExistingTopic], full_name: Mapping[str, str]
) -> TopicReport:
    """What of the declaration is missing, differs, or is as declared. existing is by full name."""
    missing: list[str] = []
    unchanged: list[str] = []
    differing: list[Difference] = []
    for spec in specs:
        name = full_name[spec.name]
        actual = existing.get(name)
        if actual is None:
            missing.append(name)
            continue
        pairs = {"partitions": (str(spec.partitions), str(actual.partitions))} | {
            setting: (value, actual.configs.get(setting, "")) for setting, value in desired_configs(spec, None).items()
        }
        differences = [
            Difference(name, setting, declared, is_now)
            for setting, (declared, is_now) in pairs.items()
            if declared != is_now
        ]
        differing += differences
        if not differences:
            unchanged.append(name)
    return TopicReport(missing=tuple(missing), unchanged=tuple(unchanged), differing=tuple(differing))


async def _in_thread(work: Any, *arguments: Any) -> TopicReport:
    # The admin client blocks; a thread of its own, never the shared default executor.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafka-admin") as executor:
        report: TopicReport = await asyncio.get_running_loop().run_in_executor(executor, work, *arguments)
        return report


def _check(settings: KafkaSettings, specs: Sequence[TopicSpec]) -> TopicReport:
    return _compare(_admin(settings), settings, specs)


def _apply(settings: KafkaSettings, specs: Sequence[TopicSpec], replication_factor: int | None) -> TopicReport:
    admin = _admin(settings)
    before = _compare(admin, settings, specs)
    wanted = [
        NewTopic(
            settings.names.full(spec.name),
            num_partitions=spec.partitions,
            replication_factor=_BROKER_DEFAULT if replication_factor is None else replication_factor,
            config=desired_configs(spec, replication_factor),
        )
        for spec in specs
        if settings.names.full(spec.name) in before.missing
    ]
    if wanted:
        for name, future in admin.create_topics(wanted, request_timeout=settings.request_timeout_sec).items():
            try:
                future.result(timeout=settings.request_timeout_sec)
            except KafkaException as exception:
                if exception.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise TopicAdminError(
                        f"cannot create topic {name}: {exception.args[0].str()}. With fewer brokers than the "
                        "replication factor, pass a smaller --replication-factor."
                    ) from exception
    return TopicReport(
        created=before.missing,
        missing=_await_visible(admin, settings, before.missing),
        unchanged=before.unchanged,
        differing=before.differing,
    )


def _await_visible(admin: AdminClient, settings: KafkaSettings, names: Sequence[str]) -> tuple[str, ...]:
    """Wait until brokers tell of new topics, so that who comes next does not find them missing; returns the rest."""
    left: set[str] = set(names)
    for _ in range(_VISIBLE_TRIES):
        known = _metadata(admin, settings)
        left -= {name for name, partitions in known.items() if partitions > 0}
        if not left:
            break
        admin.poll(0.1)
    return tuple(name for name in names if name in left)


def _admin(settings: KafkaSettings) -> AdminClient:
    return AdminClient(client_options(settings, settings.names.full("topics")))


def _metadata(admin: AdminClient, settings: KafkaSettings) -> dict[str, int]:
    """Partitions by full name of every topic the brokers know."""
    try:
        topics = admin.list_topics(timeout=settings.request_timeout_sec).topics
    except KafkaException as exception:
        raise TopicAdminError(
            f"no Kafka broker answers at {settings.bootstrap_servers} (ULAK_KAFKA_BOOTSTRAP_SERVERS): "
            f"{exception.args[0].str()}"
        ) from exception
    return {name: len(topic.partitions) for name, topic in topics.items()}


def _compare(admin: AdminClient, settings: KafkaSettings, specs: Sequence[TopicSpec]) -> TopicReport:
    full_name = {spec.name: settings.names.full(spec.name) for spec in specs}
    known = _metadata(admin, settings)
    present = [name for name in full_name.values() if name in known]
    configs: dict[str, dict[str, str]] = {}
    if present:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in present]
        described = admin.describe_configs(resources, request_timeout=settings.request_timeout_sec)
        for resource, future in described.items():
            try:
                entries = future.result(timeout=settings.request_timeout_sec)
            except KafkaException as exception:
                raise TopicAdminError(
                    f"cannot read the settings of topic {resource.name}: {exception.args[0].str()}"
                ) from exception
            configs[resource.name] = {name: str(entry.value) for name, entry in entries.items()}
    existing = {name: ExistingTopic(known[name], configs.get(name, {})) for name in present}
    return compare(specs, existing, full_name)
