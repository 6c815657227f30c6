"""The settings that the stack gives to its own processes and to `ulak dev env`. Pure."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from ops.demo.shop_database import shop_dsn
from ops.dev.paths import StackPaths
from ops.dev.plan import MAX_PARTITIONS, Plan, ServiceSpec

# The setting that names each server; when the caller has it in the environment, that server is external.
SERVER_SETTINGS: Mapping[str, str] = {
    "postgres": "ULAK_POSTGRES_DSN",
    "valkey": "ULAK_REDIS_URL",
    "kafka": "ULAK_KAFKA_BOOTSTRAP_SERVERS",
}


USER_TOKEN_SETTINGS = ("ULAK_ME_JWT_SECRET", "ULAK_ME_JWT_ISSUER", "ULAK_ME_JWT_AUDIENCE")
"""What signs a user's token on a desk, as `ulak users token` does and scripts may."""


def external_servers(environ: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Servers that the caller brings, by name, with their addresses.

    `own` is what this stack's `ulak dev env` printed last: whoever has evaluated it in the shell from which the
    stack is started again still means the stack's own servers.
    """
    return {
        name: environ[setting]
        for name, setting in SERVER_SETTINGS.items()
        if environ.get(setting) and environ[setting] != own.get(setting)
    }


def provider_environment(endpoints: Mapping[str, str], twilio_auth_token: str) -> dict[str, str]:
    """Settings that point every provider at the simulator, from the endpoints it tells when it is ready."""
    smtp_host, _, smtp_port = endpoints["smtp"].rpartition(":")
    return {
        "ULAK_SMTP_HOST": smtp_host,
        "ULAK_SMTP_PORT": smtp_port,
        "ULAK_SMTP_CA_FILE": endpoints["caFile"],
        "ULAK_SMTP_FROM_ADDRESS": "bildirim@shop.example",
        "ULAK_SMTP_FROM_NAME": "Shop",
        "ULAK_APNS_BASE_URL": endpoints["apns"],
        "ULAK_APNS_CA_FILE": endpoints["caFile"],
        "ULAK_APNS_KEY_FILE": endpoints["apnsKeyFile"],
        "ULAK_APNS_KEY_ID": endpoints["apnsKeyId"],
        "ULAK_APNS_TEAM_ID": endpoints["apnsTeamId"],
        "ULAK_APNS_TOPIC": "example.shop.app",
        "ULAK_FCM_BASE_URL": endpoints["fcm"],
        "ULAK_FCM_CA_FILE": endpoints["caFile"],
        "ULAK_FCM_SERVICE_ACCOUNT_FILE": endpoints["fcmServiceAccountFile"],
        "ULAK_WEBPUSH_VAPID_KEY_FILE": endpoints["webpushVapidKeyFile"],
        "ULAK_WEBPUSH_VAPID_SUBJECT": "mailto:ops@shop.example",
        "ULAK_WEBPUSH_CA_FILE": endpoints["caFile"],
        "ULAK_DEVICE_TRUSTED_PUSH_HOSTS": urlsplit(endpoints["webpush"]).netloc,
        "ULAK_TWILIO_BASE_URL": endpoints["twilio"],
        "ULAK_TWILIO_ACCOUNT_SID": endpoints["twilioAccountSid"],
        "ULAK_TWILIO_AUTH_TOKEN": twilio_auth_token,
        "ULAK_TWILIO_FROM_NUMBER": "+15005550006",  # Twilio's own number for tests
        "ULAK_IYS_BASE_URL": endpoints["iys"],
        "ULAK_IYS_USERNAME": endpoints["iysUsername"],
        "ULAK_IYS_PASSWORD": endpoints["iysPassword"],
        "ULAK_IYS_CODE": endpoints["iysCode"],
        "ULAK_IYS_BRAND_CODE": endpoints["iysBrandCode"],
    }


def simulator_environment(ports: Mapping[str, int], paths: StackPaths) -> dict[str, str]:
    """Where the simulator listens and keeps its keys and certificates."""
    return {
        "ULAK_SIMULATOR_PORT": str(ports["simulator"]),
        "ULAK_SIMULATOR_SMTP_PORT": str(ports["simulator-smtp"]),
        "ULAK_SIMULATOR_APNS_PORT": str(ports["simulator-apns"]),
        "ULAK_SIMULATOR_FCM_PORT": str(ports["simulator-fcm"]),
        "ULAK_SIMULATOR_STATE_DIR": str(paths.simulator),
    }


def shared_environment(
    environ: Mapping[str, str],
    plan: Plan,
    addresses: Mapping[str, str],
    ports: Mapping[str, int],
    paths: StackPaths,
    *,
    user_token_secret: str = "",
) -> dict[str, str]:
    """What every process of ours and every set-up step gets on top of the caller's environment.

    user_token_secret: what signs the users' tokens, where the plan has their API.
    A server that this plan does not have is not there, whatever the caller's shell remembers of another stack.
    """
    environment = {
        **{name: value for name, value in environ.items() if name not in SERVER_SETTINGS.values()},
        **{SERVER_SETTINGS[name]: address for name, address in addresses.items()},
        "PYTHONUNBUFFERED": "1",
    }
    # One process per group: nobody takes over a dead one's partitions, so the broker should notice soon.
    environment.setdefault("ULAK_KAFKA_SESSION_TIMEOUT_MS", "6000")
    environment.setdefault("ULAK_KAFKA_HEARTBEAT_INTERVAL_MS", "2000")
    if not environ.get("ULAK_KEY_RING"):
        environment.setdefault("ULAK_KEY_RING_FILE", str(paths.key_ring))
    if plan.simulator is not None:
        environment |= simulator_environment(ports, paths)
        environment.setdefault("ULAK_RELAY_SOURCES", shop_dsn(environment["ULAK_POSTGRES_DSN"]))
    if "callbacks" in ports:
        environment["ULAK_PUBLIC_CALLBACK_URL"] = f"http://127.0.0.1:{ports['callbacks']}"
    if "me" in ports:
        environment["ULAK_ME_PUBLIC_URL"] = f"http://127.0.0.1:{ports['me']}"
        for name, value in zip(USER_TOKEN_SETTINGS, (user_token_secret, "ulak-dev", "ulak"), strict=True):
            if name != "ULAK_ME_JWT_SECRET" or not environment.get("ULAK_ME_JWKS_URL"):
                environment.setdefault(name, value)
    return environment


def service_environment(shared: Mapping[str, str], spec: ServiceSpec, ports: Mapping[str, int]) -> dict[str, str]:
    """The shared settings and the ports of one process."""
    environment = {**shared, "ULAK_HEALTH_HOST": "127.0.0.1"}
    environment["ULAK_HEALTH_PORT"] = str(ports[spec.health_port_name])
    if spec.serves_http:
        environment["ULAK_HTTP_HOST"] = "127.0.0.1"
        environment["ULAK_HTTP_PORT"] = str(ports[spec.name])
    return environment


def exported_environment(
    plan: Plan,
    addresses: Mapping[str, str],
    ports: Mapping[str, int],
    api_key: str | None,
    shared: Mapping[str, str],
) -> dict[str, str]:
    """What `ulak dev env` prints: what scripts rely on, and what every `ulak` command needs to work on this stack.

    shared: what its processes run with; a setting that both have is one and the same, whoever chose it.
    """
    exported = {SERVER_SETTINGS[name]: address for name, address in addresses.items()}
    for spec in plan.own_processes:
        if spec.url_setting:
            exported[spec.url_setting] = f"http://127.0.0.1:{ports[spec.name]}"
    if plan.simulator is not None:
        exported["ULAK_SMTP_SINK"] = f"127.0.0.1:{ports['simulator-smtp']}"
    if api_key:
        exported["ULAK_API_KEY"] = api_key
    if any(step.name == "topics" for step in plan.steps):
        exported["ULAK_TOPICS_MAX_PARTITIONS"] = MAX_PARTITIONS
    kept = ["ULAK_KEY_RING_FILE"] if plan.steps else []
    kept += ["ULAK_RELAY_SOURCES"] if plan.simulator is not None else []
    if any(spec.name == "me" for spec in plan.services):
        kept += USER_TOKEN_SETTINGS
    exported |= {name: shared[name] for name in kept if shared.get(name)}
    return exported
