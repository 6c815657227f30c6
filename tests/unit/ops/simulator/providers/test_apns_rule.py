import pytest

from ops.simulator.exchange import Connection, Request
from ops.simulator.providers.apns.rule import STATUS_OF_REASON, TOKEN_PREFIXES, USUAL_REASON, refusal

TOKEN = "0a" * 32


def request(
    path: str = f"/3/device/{TOKEN}", method: str = "POST", body: bytes = b'{"aps":{}}', **headers: str
) -> Request:
    pairs = {"apns-topic": "com.example.shop"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, path, "", tuple(pairs.items()), body, Connection())


def sized(byte_count: int) -> bytes:
    """A payload of exactly so many bytes, most of them two-byte letters."""
    frame = '{"aps":{"alert":"%s"}}'
    room = byte_count - len(frame % "")
    return (frame % ("ş" * (room // 2) + "a" * (room % 2))).encode()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(request(), None, id="good"),
        pytest.param(request(path="/3/devices/x"), "BadPath", id="path"),
        pytest.param(request(method="GET"), "MethodNotAllowed", id="method"),
        pytest.param(request(path="/3/device/"), "MissingDeviceToken", id="no-token"),
        pytest.param(request(path="/3/device/" + "0a" * 31), "BadDeviceToken", id="31-bytes"),
        pytest.param(request(path="/3/device/" + "0a" * 80), None, id="80-bytes"),
        pytest.param(request(path="/3/device/" + "0g" * 32), "BadDeviceToken", id="not-hex"),
        pytest.param(request(apns_topic=""), "MissingTopic", id="no-topic"),
        pytest.param(request(apns_topic="com.example.other"), "TopicDisallowed", id="topic-of-another"),
        pytest.param(request(apns_push_type="banner"), "InvalidPushType", id="push-type"),
        pytest.param(request(apns_push_type="voip"), "TopicDisallowed", id="voip-needs-its-suffix"),
        pytest.param(
            request(apns_push_type="voip", apns_topic="com.example.shop.voip"), None, id="voip-with-its-suffix"
        ),
        pytest.param(request(apns_id="1"), "BadMessageId", id="id-no-uuid"),
        pytest.param(request(apns_expiration="0"), None, id="expiration-0-P7"),
        pytest.param(request(apns_expiration="-1"), "BadExpirationDate", id="expiration-negative"),
        pytest.param(request(apns_expiration="soon"), "BadExpirationDate", id="expiration-no-number"),
        pytest.param(request(apns_priority="1"), None, id="priority-1"),
        pytest.param(request(apns_priority="7"), "BadPriority", id="priority-7"),
        pytest.param(request(apns_collapse_id="ş" * 32), None, id="collapse-64-bytes-P7"),
        pytest.param(request(apns_collapse_id="ş" * 32 + "a"), "BadCollapseId", id="collapse-65-bytes-P7"),
        pytest.param(request(body=b""), "PayloadEmpty", id="no-payload"),
        pytest.param(request(body=b"[]"), "PayloadEmpty", id="payload-no-object"),
        pytest.param(request(body=sized(4096)), None, id="payload-4096-bytes-P7"),
        pytest.param(request(body=sized(4097)), "PayloadTooLarge", id="payload-4097-bytes-P7"),
        pytest.param(
            request(body=sized(5120), apns_push_type="voip", apns_topic="com.example.shop.voip"), None, id="voip-5120"
        ),
        pytest.param(request(path="/3/device/DEADBEEF" + "00" * 28), "Unregistered", id="programmed-token"),
    ],
)
def test_refusal(given: Request, reason: str | None) -> None:
    found = refusal(given, frozenset({"com.example.shop"}))
    assert (found and found.reason) == reason


def test_a_repeated_header_is_refused() -> None:
    given = request()
    repeated = Request(given.method, given.path, "", (*given.headers, *given.headers), given.body, given.connection)
    found = refusal(repeated, frozenset())
    assert found is not None
    assert found.reason == "DuplicateHeaders"


def test_every_named_reason_has_its_status() -> None:
    assert set(TOKEN_PREFIXES.values()) <= set(STATUS_OF_REASON)
    assert all(STATUS_OF_REASON[reason] == status for status, reason in USUAL_REASON.items())
