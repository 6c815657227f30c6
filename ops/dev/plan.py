"""What a stack consists of, as data: the services in start order, and the steps that prepare servers for them."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from ops.dev.paths import StackPaths
from ops.dev.status import Kind


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A process of ours: `python -m <arguments>`.

    It listens on two ports of its own: `<name>` (only if `serves_http`) and `<name>-health` with /readyz, which
    is the same as `<name>` unless `own_health`.
    `url_setting` is the variable of `ulak dev env` that tells its address.
    """

    name: str
    arguments: tuple[str, ...]
    kind: Kind = Kind.SERVICE
    serves_http: bool = False
    own_health: bool = True
    url_setting: str | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        return (sys.executable, "-m", *self.arguments)

    @property
    def health_port_name(self) -> str:
        return f"{self.name}-health" if self.own_health else self.name

    @property
    def ports(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys((self.name, self.health_port_name) if self.serves_http else (self.health_port_name,))
        )


SIMULATOR_PORTS: Final = ("simulator", "simulator-smtp", "simulator-apns", "simulator-fcm")

SERVICES: Final[tuple[ServiceSpec, ...]] = (
    ServiceSpec(
        "ingest",
        ("services.ingest", "--surface", "general", "--surface", "admin"),
        serves_http=True,
        url_setting="ULAK_INGEST_URL",
    ),
    ServiceSpec("ingest-otp", ("services.ingest", "--surface", "otp"), serves_http=True, url_setting="ULAK_OTP_URL"),
    ServiceSpec("relay", ("services.relay",)),
    ServiceSpec("router", ("services.router", "--input", "all")),
    ServiceSpec("workers", ("services.workers", "--lane", "all")),
    ServiceSpec("callbacks", ("services.callbacks",), serves_http=True, url_setting="ULAK_CALLBACKS_URL"),
    ServiceSpec("me", ("services.me",), serves_http=True, url_setting="ULAK_ME_URL"),
    ServiceSpec("projector", ("services.callbacks", "--part", "projector")),
)


@dataclass(frozen=True, slots=True)
class SetupStep:
    """A command that prepares the servers: `python -m <module> <arguments>`. May run at every start: it is idempotent.

    `after` names the steps it waits for; others run at the same time. `needed` may skip it.
    `output` is where its standard output is kept, readable by the owner only; None lets it go to its log.
    """

    name: str
    arguments: tuple[str, ...]
    after: tuple[str, ...] = ()
    needed: Callable[[StackPaths, Mapping[str, str]], bool] = lambda _paths, _environment: True
    output: Callable[[StackPaths], Path] | None = None
    module: str = "ops.cli"

    @property
    def argv(self) -> tuple[str, ...]:
        return (sys.executable, "-m", self.module, *self.arguments)


def _has_no_ring(_paths: StackPaths, environment: Mapping[str, str]) -> bool:
    ring = environment.get("ULAK_KEY_RING_FILE")
    return not environment.get("ULAK_KEY_RING") and ring is not None and not Path(ring).exists()


def _has_no_api_key(paths: StackPaths, _environment: Mapping[str, str]) -> bool:
    return read_api_key(paths) is None


def _loaded(what: str) -> Callable[[StackPaths], Path]:
    """Where the answer of a step that loads the sample is kept, so that it runs once."""
    return lambda paths: paths.sample / f"{what}.json"


def _unless_loaded(what: str) -> Callable[[StackPaths, Mapping[str, str]], bool]:
    def needed(paths: StackPaths, _environment: Mapping[str, str]) -> bool:
        answer = _loaded(what)(paths)
        return not answer.exists() or answer.stat().st_size == 0  # empty: the step was ended half-way

    return needed


MAX_PARTITIONS: Final = "2"
"""One broker and one worker process on a desk: two partitions show everything that many would."""

SAMPLE: Final = Path(__file__).parents[1] / "demo" / "sample"
"""The demo's types, templates, mappings and users: something to send from the first minute."""

SETUP: Final[tuple[SetupStep, ...]] = (
    SetupStep("keys", ("keys", "new"), needed=_has_no_ring),
    SetupStep("schema", ("db", "migrate")),
    SetupStep("topics", ("topics", "apply", "--max-partitions", MAX_PARTITIONS)),
    SetupStep(
        "api-key",
        # Of the sample shop, so that what its events become is seen with this key as well.
        ("api-keys", "create", "--name", "dev", "--application", "shop", "--kind", "live", "--scopes", "all", "--json"),
        after=("keys", "schema"),
        needed=_has_no_api_key,
        output=lambda paths: paths.api_key,
    ),
    SetupStep("shop", (), module="ops.demo.shop_database"),
    # Loaded once: what a developer changes afterwards is theirs.
    SetupStep(
        "sample-templates",
        ("templates", "push", str(SAMPLE / "catalogue"), "--json"),
        after=("schema",),
        needed=_unless_loaded("templates"),
        output=_loaded("templates"),
    ),
    SetupStep(
        "sample-users",
        ("users", "push", str(SAMPLE / "users.yaml"), "--json"),
        after=("keys", "sample-templates"),
        needed=_unless_loaded("users"),
        output=_loaded("users"),
    ),
)


def read_api_key(paths: StackPaths) -> str | None:
    """The key that `api-keys create --json` printed at the first start."""
    try:
        stored = json.loads(paths.api_key.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    key = stored.get("secret") if isinstance(stored, dict) else None
    return key if isinstance(key, str) else None


@dataclass(frozen=True, slots=True)
class Plan:
    """What one supervisor runs. The tests give it smaller ones."""

    servers: frozenset[str]
    simulator: ServiceSpec | None = None
    steps: tuple[SetupStep, ...] = ()
    services: tuple[ServiceSpec, ...] = ()

    @property
    def own_processes(self) -> tuple[ServiceSpec, ...]:
        return ((self.simulator,) if self.simulator else ()) + self.services

    @property
    def own_ports(self) -> list[str]:
        simulator = SIMULATOR_PORTS if self.simulator else ()
        return [*simulator, *(port for spec in self.own_processes for port in spec.ports if port not in simulator)]


SIMULATOR: Final = ServiceSpec(
    "simulator", ("ops.simulator",), Kind.SIMULATOR, True, own_health=False, url_setting="ULAK_SIMULATOR_URL"
)


MODEL_A_SERVERS: Final = frozenset({"postgres"})
MODEL_A_SETUP: Final = (
    *(step for step in SETUP if step.name not in {"topics", "api-key"}),
    SetupStep("email-model", (), after=("schema", "shop"), module="ops.dev.email_model"),
)
MODEL_A_SERVICES: Final = (ServiceSpec("relay", ("services.relay", "--model-a")),)


class Extent(StrEnum):
    """How much of a stack: the supervisor's argument."""

    ALL = "all"
    SERVERS = "servers"
    MODEL_A = "model-a"
    """E-mail sent straight from its table: PostgreSQL, the simulator as the mail server, and the relay alone."""


def plan_for(servers: frozenset[str], extent: Extent) -> Plan:
    """`servers` are those that are not external."""
    match extent:
        case Extent.ALL:
            return Plan(servers, SIMULATOR, SETUP, SERVICES)
        case Extent.SERVERS:
            return Plan(servers)
        case Extent.MODEL_A:
            return Plan(servers & MODEL_A_SERVERS, SIMULATOR, MODEL_A_SETUP, MODEL_A_SERVICES)
