"""Builds the simulator from its settings and runs it: one process, four listeners, one ledger."""

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

import httpx
import orjson

from ops.simulator import credential
from ops.simulator.connections import OpenConnections
from ops.simulator.control import Control
from ops.simulator.exchange import Clock, Exchange, Handler, HttpProvider, Reply, Request
from ops.simulator.fault import FaultTable
from ops.simulator.http1 import Http1Protocol
from ops.simulator.http2 import Http2Protocol
from ops.simulator.ledger import Ledger
from ops.simulator.providers.apns.provider import Apns
from ops.simulator.providers.apns.token import ProviderTokens
from ops.simulator.providers.fcm.oauth import TOKEN_PATH, AccessTokens, TokenEndpoint
from ops.simulator.providers.fcm.provider import Fcm
from ops.simulator.providers.iys import provider as iys
from ops.simulator.providers.iys.registry import Registry
from ops.simulator.providers.mailgun import provider as mailgun
from ops.simulator.providers.netgsm.provider import PATH as NETGSM_PATH
from ops.simulator.providers.netgsm.provider import Netgsm
from ops.simulator.providers.sendgrid import provider as sendgrid
from ops.simulator.providers.ses import provider as ses
from ops.simulator.providers.smtp.connection import SmtpConnection
from ops.simulator.providers.smtp.dialogue import NAME as SMTP
from ops.simulator.providers.smtp.dialogue import Dialogue, SmtpOptions
from ops.simulator.providers.twilio.message import MessageStore
from ops.simulator.providers.twilio.provider import PATH_PREFIX, Account, Twilio, TwilioFetch
from ops.simulator.providers.twilio.receipt import StatusCallbacks
from ops.simulator.providers.vonage.provider import PATH as VONAGE_PATH
from ops.simulator.providers.vonage.provider import Vonage
from ops.simulator.providers.webpush.browser import Browser
from ops.simulator.providers.webpush.provider import WebPush
from ops.simulator.providers.webpush.rule import PATH_PREFIX as WEB_PUSH_PREFIX
from ops.simulator.settings import SimulatorSettings

SHUTDOWN_SEC: Final = 2.0
ENDPOINTS_FILE: Final = "endpoints.json"
VAPID_KEY_FILE: Final = "webpush-vapid.pem"
VONAGE_SECRET_FILE: Final = "vonage-api-secret"  # noqa: S105 - a file's name
NETGSM_PASSWORD_FILE: Final = "netgsm-password"  # noqa: S105 - a file's name
SES_SECRET_FILE: Final = "ses-secret-access-key"  # noqa: S105 - the name of a file
SENDGRID_KEY_FILE: Final = "sendgrid-api-key"
MAILGUN_KEY_FILE: Final = "mailgun-api-key"


def system_clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Branch:
    """Sends a request to the first handler whose test it passes, else to the last."""

    handlers: tuple[tuple[Callable[[Request], bool], Handler], ...]
    otherwise: Handler

    async def __call__(self, request: Request) -> Reply:
        return await self._for(request)(request)

    def refuse(self, request: Request) -> None:
        self._for(request).refuse(request)

    def _for(self, request: Request) -> Handler:
        return next((handler for test, handler in self.handlers if test(request)), self.otherwise)


def _bound(host: str, port: int, name: str) -> socket.socket:
    """A listening socket; it is bound before anything is built, because addresses go into credentials."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(
            error.errno,
            f"{name} {port} on {host} cannot be used: {error.strerror}. Choose another, or 0 for a free one",
        ) from error
    listener.setblocking(False)
    return listener


def _authority(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@asynccontextmanager
async def _state_folder(settings: SimulatorSettings) -> AsyncIterator[Path]:
    if settings.state_dir is not None:
        settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield settings.state_dir.absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="ulak-simulator-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def open_simulator(settings: SimulatorSettings, clock: Clock = system_clock) -> AsyncIterator[dict[str, object]]:
    """Run the simulator until the block ends; yields its endpoints, as `GET /_sim/endpoints` tells them.

    Raises OSError if a port cannot be had; the message names it.
    """
    async with AsyncExitStack() as stack:
        folder = await stack.enter_async_context(_state_folder(settings))
        http, apns, fcm, smtp = (
            stack.enter_context(_bound(settings.host, port, name))
            for port, name in (
                (settings.port, "port"),
                (settings.apns_port, "apns_port"),
                (settings.fcm_port, "fcm_port"),
                (settings.smtp_port, "smtp_port"),
            )
        )
        url = f"http://{_authority(http)}"
        fcm_url = f"https://{_authority(fcm)}"
        random = Random(settings.seed)  # noqa: S311 - a run must be repeatable, nothing here is secret
        faults = FaultTable(random)
        ledger = Ledger(settings.ledger_entries, settings.ledger_bytes)

        def handler(provider: HttpProvider) -> Exchange:
            return Exchange(provider, faults, ledger, clock)

        tls = credential.tls(folder, clock())
        apns_key = credential.apns_key(folder, settings.apns_key_id, settings.apns_team_id)
        account = credential.service_account(folder, settings.fcm_project, f"{url}{TOKEN_PATH}")
        access = AccessTokens(credential.secret(folder, "fcm-token-secret"), settings.fcm_token_lifetime_sec)
        audiences = frozenset({f"{url}{TOKEN_PATH}", f"{fcm_url}{TOKEN_PATH}", "https://oauth2.googleapis.com/token"})
        oauth = handler(TokenEndpoint(account, access, audiences))
        auth_token_file = (
            credential.keep(folder, "twilio-auth-token", settings.twilio_auth_token)
            if settings.twilio_auth_token
            else folder / "twilio-auth-token"
        )
        twilio_account = Account(settings.twilio_account_sid, credential.secret(folder, auth_token_file.name))
        store = MessageStore(settings.ledger_entries)
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        callbacks = StatusCallbacks(twilio_account.auth_token, store, client, clock, random, settings.receipt_policy)
        stack.push_async_callback(callbacks.stop)
        iys_account = iys.Account(
            settings.iys_username, settings.iys_password, settings.iys_code, settings.iys_brand_code
        )
        registry = Registry()
        ses_account = ses.Account(
            settings.ses_access_key_id, credential.secret(folder, SES_SECRET_FILE), settings.ses_region
        )
        mailgun_account = mailgun.Account(settings.mailgun_domain, credential.secret(folder, MAILGUN_KEY_FILE))
        netgsm_account = Netgsm(
            settings.netgsm_usercode, credential.secret(folder, NETGSM_PASSWORD_FILE), settings.netgsm_msgheader
        )
        control = Control(
            ledger,
            faults,
            {Twilio.name: callbacks},
            frozenset(
                {
                    *(SMTP, Apns.name, Fcm.name, TokenEndpoint.name, WebPush.name, Twilio.name, TwilioFetch.name),
                    *(iys.Iys.name, iys.IysToken.name, Vonage.name, Netgsm.name),
                    *(ses.Ses.name, sendgrid.Sendgrid.name, mailgun.Mailgun.name),
                }
            ),
        )

        def is_token(request: Request) -> bool:
            return request.path == TOKEN_PATH

        plain = Branch(
            (
                (
                    lambda request: request.path.startswith(PATH_PREFIX) and request.method == "GET",
                    handler(TwilioFetch(twilio_account, store)),
                ),
                (
                    lambda request: request.path.startswith(PATH_PREFIX),
                    handler(Twilio(twilio_account, store, callbacks)),
                ),
                (lambda request: request.path.startswith(ses.PATH_PREFIX), handler(ses.Ses(ses_account))),
                (
                    lambda request: request.path == sendgrid.PATH,
                    handler(sendgrid.Sendgrid(credential.secret(folder, SENDGRID_KEY_FILE))),
                ),
                (
                    lambda request: request.path == VONAGE_PATH,
                    handler(Vonage(settings.vonage_api_key, credential.secret(folder, VONAGE_SECRET_FILE))),
                ),
                (lambda request: request.path == NETGSM_PATH, handler(netgsm_account)),
                (
                    lambda request: mailgun.PATH.match(request.path) is not None,
                    handler(mailgun.Mailgun(mailgun_account)),
                ),
                (is_token, oauth),
                (lambda request: request.path == iys.TOKEN_PATH, handler(iys.IysToken(iys_account))),
                (
                    lambda request: request.path.startswith(iys.PATH_PREFIX),
                    handler(iys.Iys(iys_account, registry)),
                ),
                (
                    lambda request: request.path == iys.CHANGES_PATH and request.method == "POST",
                    handler(iys.IysChanges(registry)),
                ),
            ),
            control,
        )
        to_apns = handler(Apns(ProviderTokens(apns_key), settings.topics, clock))
        browser = Browser(
            credential.p256_key(folder, "webpush-browser.pem"),
            bytes.fromhex(credential.secret(folder, "webpush-browser-auth")),
        )
        credential.p256_key(folder, VAPID_KEY_FILE)
        to_fcm = Branch(
            (
                (is_token, oauth),
                (lambda request: request.path.startswith(WEB_PUSH_PREFIX), handler(WebPush(browser, fcm_url))),
            ),
            handler(Fcm(access, settings.fcm_project)),
        )
        options = SmtpOptions(
            hostname=settings.smtp_hostname,
            max_size_bytes=settings.smtp_max_size_bytes,
            max_recipients=settings.smtp_max_recipients,
            user=settings.smtp_user,
            password=settings.smtp_password,
            require_tls=settings.smtp_require_tls,
            require_auth=settings.smtp_require_auth,
        )
        smtp_tls = tls.server_context()

        def converse(connection: SmtpConnection) -> Awaitable[None]:
            return Dialogue(connection, options, smtp_tls, faults, ledger, clock).run()

        streams = settings.max_concurrent_streams
        open_connections = OpenConnections()
        stack.push_async_callback(open_connections.cut, SHUTDOWN_SEC)
        loop = asyncio.get_running_loop()
        h2 = tls.server_context("h2")
        for server in (
            await loop.create_server(lambda: Http1Protocol(plain, open_connections), sock=http),
            await loop.create_server(lambda: Http2Protocol(to_apns, open_connections, streams), sock=apns, ssl=h2),
            await loop.create_server(lambda: Http2Protocol(to_fcm, open_connections, streams), sock=fcm, ssl=h2),
            await loop.create_server(lambda: SmtpConnection(converse, open_connections), sock=smtp),
        ):
            stack.callback(server.close)
        control.endpoints.update(
            {
                "url": url,
                "apns": f"https://{_authority(apns)}",
                "apnsKeyFile": str(apns_key.file),
                "apnsKeyId": apns_key.key_id,
                "apnsTeamId": apns_key.team_id,
                "fcm": fcm_url,
                "fcmTokenUrl": f"{url}{TOKEN_PATH}",
                "fcmProject": account.project_id,
                "fcmServiceAccountFile": str(account.file),
                "webpush": f"{fcm_url}{WEB_PUSH_PREFIX}",
                "webpushP256dh": browser.p256dh_text,
                "webpushAuth": browser.auth_text,
                "webpushVapidKeyFile": str(folder / VAPID_KEY_FILE),
                "twilio": url,
                "twilioAccountSid": twilio_account.sid,
                "twilioAuthTokenFile": str(auth_token_file),
                "vonage": url,
                "vonageApiKey": settings.vonage_api_key,
                "vonageApiSecretFile": str(folder / VONAGE_SECRET_FILE),
                "netgsm": url,
                "netgsmUsercode": netgsm_account.usercode,
                "netgsmPasswordFile": str(folder / NETGSM_PASSWORD_FILE),
                "netgsmMsgheader": netgsm_account.msgheader,
                "iys": url,
                "iysUsername": iys_account.username,
                "iysPassword": iys_account.password,
                "iysCode": iys_account.iys_code,
                "iysBrandCode": iys_account.brand_code,
                "ses": url,
                "sesRegion": ses_account.region,
                "sesAccessKeyId": ses_account.access_key_id,
                "sesSecretAccessKeyFile": str(folder / SES_SECRET_FILE),
                "sendgrid": url,
                "sendgridApiKeyFile": str(folder / SENDGRID_KEY_FILE),
                "mailgun": url,
                "mailgunDomain": mailgun_account.domain,
                "mailgunApiKeyFile": str(folder / MAILGUN_KEY_FILE),
                "smtp": _authority(smtp),
                "caFile": str(tls.ca_file),
            }
        )
        (folder / ENDPOINTS_FILE).write_bytes(orjson.dumps(control.endpoints, option=orjson.OPT_INDENT_2))
        yield control.endpoints
