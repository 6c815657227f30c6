"""The tables of a stack fit together: an order without a circle, ports of their own, the settings scripts rely on."""

from pathlib import Path

import pytest

from ops.dev.environment import (
    exported_environment,
    external_servers,
    provider_environment,
    service_environment,
    shared_environment,
)
from ops.dev.paths import StackPaths
from ops.dev.plan import SERVICES, Extent, Plan, plan_for, read_api_key
from ops.dev.servers import ALL

PATHS = StackPaths(Path("/state"))
FULL = plan_for(ALL, Extent.ALL)
MODEL_A = plan_for(ALL, Extent.MODEL_A)
PORTS = {name: 20_000 + number for number, name in enumerate(FULL.own_ports)}
ADDRESSES = {
    "postgres": "postgresql://postgres:pw@127.0.0.1:1/ulak",
    "valkey": "redis://:pw@127.0.0.1:2/0",
    "kafka": "127.0.0.1:3",
}


@pytest.mark.parametrize("plan", [FULL, MODEL_A])
def test_every_step_waits_only_for_steps_before_it(plan: Plan) -> None:
    before: set[str] = set()
    for step in plan.steps:
        assert set(step.after) <= before
        before.add(step.name)


def test_every_process_has_ports_of_its_own() -> None:
    assert len(set(FULL.own_ports)) == len(FULL.own_ports)
    assert {spec.health_port_name for spec in FULL.own_processes} <= set(FULL.own_ports)


def test_all_inputs_and_lanes_are_served() -> None:
    assert [" ".join(spec.arguments) for spec in SERVICES] == [
        "services.ingest --surface general --surface admin",
        "services.ingest --surface otp",
        "services.relay",
        "services.router --input all",
        "services.workers --lane all",
        "services.callbacks",
        "services.me",
        "services.callbacks --part projector",
    ]


def test_servers_alone_have_no_services_and_no_steps() -> None:
    assert plan_for(ALL, Extent.SERVERS) == Plan(ALL)


def test_model_a_is_postgresql_the_simulator_and_the_relay_alone() -> None:
    assert MODEL_A.servers == {"postgres"}
    assert plan_for(frozenset({"kafka"}), Extent.MODEL_A).servers == frozenset(), "an external PostgreSQL is used"
    assert [" ".join(spec.arguments) for spec in MODEL_A.own_processes] == ["ops.simulator", "services.relay --model-a"]
    assert not {"topics", "api-key"} & {step.name for step in MODEL_A.steps}
    postgres = {"postgres": ADDRESSES["postgres"]}
    shared = shared_environment({}, MODEL_A, postgres, PORTS, PATHS)
    assert set(exported_environment(MODEL_A, postgres, PORTS, None, shared)) == {
        "ULAK_POSTGRES_DSN",
        "ULAK_SIMULATOR_URL",
        "ULAK_SMTP_SINK",
        "ULAK_RELAY_SOURCES",
        "ULAK_KEY_RING_FILE",
    }


@pytest.mark.parametrize(
    ("environ", "sources"),
    [
        pytest.param({}, "postgresql://postgres:pw@127.0.0.1:1/ulak_shop", id="the-sample-shop"),
        pytest.param({"ULAK_RELAY_SOURCES": "postgresql://mine/orders"}, "postgresql://mine/orders", id="the-callers"),
    ],
)
def test_what_is_printed_is_what_the_processes_run_with(environ: dict[str, str], sources: str) -> None:
    shared = shared_environment(environ, FULL, ADDRESSES, PORTS, PATHS, user_token_secret="s" * 32)
    exported = exported_environment(FULL, ADDRESSES, PORTS, "key", shared)

    assert exported["ULAK_RELAY_SOURCES"] == sources
    common = exported.keys() & shared.keys()
    assert {name: exported[name] for name in common} == {name: shared[name] for name in common}


def test_what_a_shell_remembers_of_another_stacks_servers_is_not_passed_on() -> None:
    shell = {"ULAK_REDIS_URL": "redis://gone", "ULAK_KAFKA_BOOTSTRAP_SERVERS": "gone:1"}
    shared = shared_environment(shell, MODEL_A, {"postgres": ADDRESSES["postgres"]}, PORTS, PATHS)
    assert not shell.keys() & shared.keys()


@pytest.mark.parametrize(
    ("environ", "own", "external"),
    [
        pytest.param({}, {}, {}, id="nothing-set"),
        pytest.param({"ULAK_REDIS_URL": "redis://there"}, {}, {"valkey": "redis://there"}, id="one-brought"),
        pytest.param({"ULAK_REDIS_URL": ""}, {}, {}, id="empty-is-unset"),
        pytest.param(
            {"ULAK_REDIS_URL": "redis://mine"}, {"ULAK_REDIS_URL": "redis://mine"}, {}, id="own-address-evaluated"
        ),
        pytest.param(
            {"ULAK_KAFKA_BOOTSTRAP_SERVERS": "a:1", "ULAK_POSTGRES_DSN": "postgresql://b"},
            {"ULAK_KAFKA_BOOTSTRAP_SERVERS": "c:1"},
            {"kafka": "a:1", "postgres": "postgresql://b"},
            id="two-brought",
        ),
    ],
)
def test_external_servers(environ: dict[str, str], own: dict[str, str], external: dict[str, str]) -> None:
    assert external_servers(environ, own) == external


def test_the_settings_of_the_shape_that_scripts_rely_on() -> None:
    shared = shared_environment({}, FULL, ADDRESSES, PORTS, PATHS, user_token_secret="s" * 32)
    exported = exported_environment(FULL, ADDRESSES, PORTS, "key", shared)
    assert exported["ULAK_ME_JWT_SECRET"] == "s" * 32
    assert set(exported) == {
        "ULAK_ME_URL",
        "ULAK_ME_JWT_SECRET",
        "ULAK_ME_JWT_ISSUER",
        "ULAK_ME_JWT_AUDIENCE",
        "ULAK_INGEST_URL",
        "ULAK_OTP_URL",
        "ULAK_CALLBACKS_URL",
        "ULAK_SIMULATOR_URL",
        "ULAK_SMTP_SINK",
        "ULAK_RELAY_SOURCES",
        "ULAK_API_KEY",
        "ULAK_POSTGRES_DSN",
        "ULAK_REDIS_URL",
        "ULAK_KAFKA_BOOTSTRAP_SERVERS",
        "ULAK_KEY_RING_FILE",
        "ULAK_TOPICS_MAX_PARTITIONS",
    }


def test_a_service_gets_its_own_ports_and_only_loopback() -> None:
    shared = shared_environment({"LANG": "tr_TR.UTF-8"}, FULL, ADDRESSES, PORTS, PATHS)
    ingest, relay = SERVICES[0], SERVICES[2]
    given = service_environment(shared, ingest, PORTS)
    assert given["ULAK_HTTP_HOST"] == given["ULAK_HEALTH_HOST"] == "127.0.0.1"
    assert (given["ULAK_HTTP_PORT"], given["ULAK_HEALTH_PORT"]) == (
        str(PORTS["ingest"]),
        str(PORTS["ingest-health"]),
    )
    assert given["LANG"] == "tr_TR.UTF-8"
    assert given["ULAK_KEY_RING_FILE"] == "/state/keys/ring.json"
    assert "ULAK_HTTP_PORT" not in service_environment(shared, relay, PORTS)


def test_a_signer_that_the_caller_brings_is_used() -> None:
    brought = {"ULAK_ME_JWKS_URL": "https://id.shop.example/jwks", "ULAK_ME_JWT_ISSUER": "https://id.shop.example"}
    shared = shared_environment(brought, FULL, ADDRESSES, PORTS, PATHS, user_token_secret="s" * 32)
    assert "ULAK_ME_JWT_SECRET" not in shared
    assert brought.items() <= shared.items()
    assert shared["ULAK_ME_JWT_AUDIENCE"] == "ulak"


def test_every_provider_is_pointed_at_the_simulator() -> None:
    endpoints = {
        "smtp": "127.0.0.1:25",
        "caFile": "/s/ca.pem",
        "apns": "https://127.0.0.1:1",
        "apnsKeyFile": "/s/key.p8",
        "apnsKeyId": "K",
        "apnsTeamId": "T",
        "fcm": "https://127.0.0.1:2",
        "fcmServiceAccountFile": "/s/account.json",
        "webpush": "https://127.0.0.1:2/wpush/",
        "webpushVapidKeyFile": "/s/vapid.pem",
        "twilio": "http://127.0.0.1:3",
        "twilioAccountSid": "AC",
        "iys": "http://127.0.0.1:4",
        "iysUsername": "user",
        "iysPassword": "password",
        "iysCode": "1",
        "iysBrandCode": "2",
    }
    settings = provider_environment(endpoints, "token")
    assert settings["ULAK_SMTP_HOST"] == "127.0.0.1"
    assert settings["ULAK_SMTP_PORT"] == "25"
    assert settings["ULAK_TWILIO_AUTH_TOKEN"] == "token"
    assert settings["ULAK_DEVICE_TRUSTED_PUSH_HOSTS"] == "127.0.0.1:2"
    assert {value for name, value in settings.items() if name.endswith("_BASE_URL")} == {
        endpoints["apns"],
        endpoints["fcm"],
        endpoints["twilio"],
        endpoints["iys"],
    }


@pytest.mark.parametrize("setting", [{"ULAK_KEY_RING": "{}"}, {"ULAK_KEY_RING_FILE": "/elsewhere/ring.json"}])
def test_a_key_ring_that_the_caller_brings_is_used(setting: dict[str, str]) -> None:
    shared = shared_environment(setting, FULL, ADDRESSES, PORTS, PATHS)
    assert {name: value for name, value in shared.items() if name.startswith("ULAK_KEY_RING")} == setting


@pytest.mark.parametrize(
    ("text", "key"), [('{"secret": "ulk_1"}', "ulk_1"), ("", None), ("{", None), ("[]", None), ('{"secret": 1}', None)]
)
def test_read_api_key(text: str, key: str | None, tmp_path: Path) -> None:
    paths = StackPaths(tmp_path)
    assert read_api_key(paths) is None
    paths.api_key.parent.mkdir()
    paths.api_key.write_text(text)
    assert read_api_key(paths) == key
