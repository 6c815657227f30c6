"""SES, SendGrid and Mailgun as they are simulated: nothing that arrives makes them fail, and keys are checked first."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from ops.simulator.exchange import Connection, HttpProvider, Request
from ops.simulator.providers.mailgun import provider as mailgun
from ops.simulator.providers.mailgun.rule import read_form
from ops.simulator.providers.sendgrid.provider import Sendgrid
from ops.simulator.providers.ses import provider as ses
from ops.simulator.providers.ses.signature import fault
from shared.providers.email.mailgun.form import CONTENT_TYPE, form

KEY_ID, SECRET, REGION = "AKIASIMULATOR0000001", "hush", "eu-central-1"
SES_PATH = "/v2/email/outbound-emails"
SES_URL = f"http://127.0.0.1:1{SES_PATH}"
MAILGUN_KEY = "Basic YXBpOmh1c2g="
PROVIDERS = [
    ses.Ses(ses.Account(KEY_ID, SECRET, REGION)),
    Sendgrid(SECRET),
    mailgun.Mailgun(mailgun.Account("shop.example", SECRET)),
]


def request(path: str, body: bytes, **headers: str) -> Request:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Request("POST", path, "", named, body, Connection())


def signed(body: bytes, *, secret: str = SECRET, region: str = REGION) -> Request:
    aws = AWSRequest("POST", SES_URL, headers={"content-type": "application/json"}, data=body)
    SigV4Auth(Credentials(KEY_ID, secret), "ses", region).add_auth(aws)
    headers = {name.lower().replace("-", "_"): value for name, value in aws.headers.items()}
    return request(SES_PATH, body, host="127.0.0.1:1", **headers)


def admitted(provider: HttpProvider, body: bytes) -> Request:
    """A request with the right key."""
    if provider.name == "ses":
        return signed(body)
    if provider.name == "sendgrid":
        return request("/v3/mail/send", body, authorization=f"Bearer {SECRET}")
    return request("/v3/shop.example/messages.mime", body, authorization=MAILGUN_KEY, content_type=CONTENT_TYPE)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "personalizations",
                    "to",
                    "email",
                    "content",
                    "type",
                    "value",
                    "attachments",
                    "headers",
                    "custom_args",
                    "from",
                    "Content",
                    "Raw",
                    "Data",
                    "Destination",
                    "ToAddresses",
                    "subject",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: str(provider.name))
@given(body=st.binary(max_size=200) | _JSON.map(orjson.dumps))
def test_nothing_makes_them_fail_and_nonsense_is_refused(provider: HttpProvider, body: bytes) -> None:
    call = admitted(provider, body)
    answer = provider.answer(call, provider.read(call), datetime.now(UTC), None)
    assert not answer.accepted
    assert answer.reply.status in {400, 404, 413}


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: str(provider.name))
def test_without_a_key_nothing_is_looked_at(provider: HttpProvider) -> None:
    call = request(admitted(provider, b"{}").path, b"{}")
    answer = provider.answer(call, provider.read(call), datetime.now(UTC), None)
    assert answer.reply.status in {401, 403}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda: signed(b"{}"), None, id="ours"),
        pytest.param(lambda: signed(b"{}", secret="other"), "SignatureDoesNotMatch", id="secret"),
        pytest.param(lambda: signed(b"{}", region="us-east-1"), "SignatureDoesNotMatch", id="region"),
        pytest.param(lambda: request(SES_PATH, b"{}"), "MissingAuthenticationToken", id="none"),
        pytest.param(
            lambda: request(SES_PATH, b"{}", authorization="AWS4-HMAC-SHA256 x"), "IncompleteSignature", id="incomplete"
        ),
    ],
)
def test_signature_is_checked_as_aws_does(make: Callable[[], Request], expected: str | None) -> None:
    """Made in the test: a signature ages, and tests may be collected long before they run."""
    assert fault(make(), KEY_ID, SECRET, REGION, datetime.now(UTC)) == expected


def test_signature_ages_and_covers_the_body() -> None:
    call = signed(b"{}")
    now = datetime.now(UTC)
    assert fault(call, KEY_ID, SECRET, REGION, now + timedelta(minutes=6)) == "RequestExpired"
    changed = Request("POST", call.path, "", call.headers, b"{ }", call.connection)
    assert fault(changed, KEY_ID, SECRET, REGION, now) == "SignatureDoesNotMatch"


@given(st.binary(max_size=300).filter(lambda data: b"=_ulak-form" not in data))
def test_form_gives_the_file_back_as_it_was(data: bytes) -> None:
    body = form([("to", "a@example.com"), ("to", "b@example.com"), ("v:reference", "eml_1")], "message", "m.eml", data)
    read = read_form(request("/", body, content_type=CONTENT_TYPE))
    assert read.message == data
    assert read.fields == [("to", "a@example.com"), ("to", "b@example.com"), ("v:reference", "eml_1")]
