"""One SMTP session: RFC 5321 with STARTTLS, AUTH, PIPELINING, SIZE, 8BITMIME and SMTPUTF8, and programmed faults."""

import base64
import binascii
import hmac
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ops.simulator.exchange import Clock
from ops.simulator.fault import Call, Drop, Fault, FaultTable, SmtpPhase
from ops.simulator.ledger import Arrival, Ledger, Result
from ops.simulator.mail import read_mail, undotted
from ops.simulator.providers.smtp.command import (
    Path,
    SmtpReply,
    parse_command,
    parse_path,
    refused_recipient,
    refused_sender,
    reply,
)
from ops.simulator.providers.smtp.connection import ConnectionEndedError, LineTooLongError, SmtpConnection

NAME: Final = "smtp"
_OK: Final = reply(250, "2.0.0 Ok")


@dataclass(frozen=True, slots=True)
class SmtpOptions:
    """What the server demands. Without a user any credentials are good."""

    hostname: str
    max_size_bytes: int
    max_recipients: int
    user: str | None
    password: str | None
    require_tls: bool
    require_auth: bool


@dataclass(slots=True)
class Transaction:
    """An envelope being filled (RFC 5321 section 3.3)."""

    sender: Path
    recipients: list[str] = field(default_factory=list)
    refused: list[tuple[str, int]] = field(default_factory=list)

    @property
    def utf8(self) -> bool:
        return "SMTPUTF8" in self.sender.params

    @property
    def eight_bit(self) -> bool:
        return self.sender.params.get("BODY", "").upper() == "8BITMIME"

    def content(self, **more: object) -> dict[str, object]:
        return {
            "mailFrom": self.sender.address,
            "rcptTo": self.recipients,
            "rcptRefused": [{"to": address, "code": code} for address, code in self.refused],
            **more,
        }

    def arrival(self, reference: str | None = None, **more: object) -> Arrival:
        everyone = (*self.recipients, *(address for address, _ in self.refused))
        return Arrival(next(iter(everyone), None), reference, self.content(**more), everyone)


@dataclass(slots=True)
class Dialogue:
    """Serves one connection to its end. One ledger entry per mail, and one per refusal that kept a mail from coming."""

    connection: SmtpConnection
    options: SmtpOptions
    tls: ssl.SSLContext
    faults: FaultTable
    ledger: Ledger
    clock: Clock
    _greeted: bool = False
    _authenticated: bool = False
    _transaction: Transaction | None = None

    async def run(self) -> None:
        """Raises ConnectionEndedError when the connection is cut by either side."""
        try:
            greeting = reply(220, f"{self.options.hostname} ESMTP Ulak simulator")
            if (await self._answer(SmtpPhase.GREETING, greeting)).positive:
                await self._commands()
        except LineTooLongError:
            self.connection.write(reply(500, "5.5.2 Line too long"))
        finally:
            self._abandon()

    async def _commands(self) -> None:
        verbs: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "EHLO": self._ehlo,
            "HELO": self._helo,
            "STARTTLS": self._starttls,
            "AUTH": self._auth,
            "MAIL": self._mail,
            "RCPT": self._rcpt,
            "DATA": self._data,
            "RSET": self._rset,
        }
        plain = {
            "NOOP": _OK,
            "VRFY": reply(252, "2.5.2 Send some mail, I will try my best"),
            "HELP": reply(214, "2.0.0 See RFC 5321"),
        }
        while True:
            command = parse_command(await self.connection.line())
            if command is None:
                self.connection.write(reply(500, "5.5.2 Commands are UTF-8"))
            elif command.verb == "QUIT":
                self.connection.write(reply(221, "2.0.0 Bye"))
                return
            elif command.verb in verbs:
                await verbs[command.verb](command.argument)
            else:
                self.connection.write(plain.get(command.verb, reply(500, "5.5.2 Command not recognized")))

    async def _answer(self, phase: SmtpPhase, usual: SmtpReply, *to: str) -> SmtpReply:
        """Reply at a phase before the mail itself, as programmed, and record what a fault refused at the door.

        Returns what was replied. Raises ConnectionEndedError where the connection is cut.
        """
        fault = self.faults.take(Call(NAME, to, None, phase)) if usual.positive else None
        if fault is None:
            self.connection.write(usual)
            return usual
        answer = _programmed(fault, usual)
        drop = fault.action.drop
        if not answer.positive or drop is not None:
            self._record_fault(phase, answer, fault, to)
        await self._carry_out(fault, answer)
        return answer

    async def _carry_out(self, fault: Fault, answer: SmtpReply) -> None:
        if fault.action.delay_ms:
            await self.connection.sleep(fault.action.delay_ms / 1000)
        if fault.action.drop is Drop.MID_REPLY:
            self.connection.write_part(answer)
        if fault.action.drop is not None:
            raise ConnectionEndedError
        self.connection.write(answer)
        if answer.code == 421:
            # The server says that it closes, and does (RFC 5321 section 3.8).
            self.connection.close()
            raise ConnectionEndedError

    def _record_fault(self, phase: SmtpPhase, answer: SmtpReply, fault: Fault, to: tuple[str, ...]) -> None:
        transaction = self._transaction
        if phase is SmtpPhase.RCPT and fault.action.drop is None and answer.code != 421:
            return  # the envelope goes on; its end is recorded
        result = Result(
            accepted=False,
            status=None if fault.action.drop in {Drop.BEFORE_READ, Drop.AFTER_ACCEPT} else answer.code,
            error=f"{phase}: {answer.code}" if fault.action.drop is None else f"{phase}: dropped",
            fault_id=fault.id,
        )
        if transaction is None:
            arrival = Arrival(None, None, {"phase": phase})
        else:
            if phase is SmtpPhase.RCPT:
                transaction.refused += [(address, answer.code) for address in to]
            arrival = transaction.arrival(phase=phase)
        self.ledger.add(NAME, arrival, result, self.clock())
        self._transaction = None

    async def _ehlo(self, argument: str) -> None:
        if not argument:
            self.connection.write(reply(501, "5.5.4 Syntax: EHLO hostname"))
            return
        extensions = ["PIPELINING", f"SIZE {self.options.max_size_bytes}"]
        extensions += ["AUTH PLAIN LOGIN"] if self.connection.secure else ["STARTTLS"]
        extensions += ["8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES"]
        await self._hello(reply(250, self.options.hostname, *extensions))

    async def _helo(self, argument: str) -> None:
        if not argument:
            self.connection.write(reply(501, "5.5.4 Syntax: HELO hostname"))
            return
        await self._hello(reply(250, self.options.hostname))

    async def _hello(self, usual: SmtpReply) -> None:
        self._abandon()
        self._greeted = (await self._answer(SmtpPhase.EHLO, usual)).positive

    async def _starttls(self, argument: str) -> None:
        if self.connection.secure:
            self.connection.write(reply(503, "5.5.1 TLS is on already"))
        elif argument:
            self.connection.write(reply(501, "5.5.4 STARTTLS takes no parameter"))
        else:
            await self.connection.start_tls(reply(220, "2.0.0 Ready to start TLS"), self.tls)
            self._greeted = self._authenticated = False
            self._abandon()

    async def _auth(self, argument: str) -> None:
        if not self._greeted or self._authenticated or self._transaction is not None:
            self.connection.write(reply(503, "5.5.1 AUTH is not possible now"))
            return
        if not self.connection.secure:
            self.connection.write(reply(538, "5.7.11 Encryption is required for AUTH"))
            return
        mechanism, _, initial = argument.partition(" ")
        try:
            if mechanism.upper() == "PLAIN":
                answer = initial or await self._challenge("")
                _, user, password = _decoded(answer).split("\0")
            elif mechanism.upper() == "LOGIN":
                user = _decoded(initial or await self._challenge("VXNlcm5hbWU6"))
                password = _decoded(await self._challenge("UGFzc3dvcmQ6"))
            else:
                self.connection.write(reply(504, "5.5.4 AUTH PLAIN or AUTH LOGIN"))
                return
        except ValueError:
            self.connection.write(reply(501, "5.5.2 The response is not as the mechanism wants it"))
            return
        self._authenticated = self._admits(user, password)
        good = reply(235, "2.7.0 Authentication successful")
        self.connection.write(good if self._authenticated else reply(535, "5.7.8 Authentication credentials invalid"))

    async def _challenge(self, text: str) -> str:
        self.connection.write(reply(334, text))
        return (await self.connection.line()).decode("ascii")

    def _admits(self, user: str, password: str) -> bool:
        if self.options.user is None:
            return True
        expected = f"{self.options.user}\0{self.options.password or ''}"
        return hmac.compare_digest(f"{user}\0{password}".encode(), expected.encode())

    def _out_of_order(self) -> SmtpReply | None:
        if not self._greeted:
            return reply(503, "5.5.1 Send EHLO first")
        if self.options.require_tls and not self.connection.secure:
            return reply(530, "5.7.0 Must issue a STARTTLS command first")
        if self.options.require_auth and not self._authenticated:
            return reply(530, "5.7.0 Authentication required")
        return None

    async def _mail(self, argument: str) -> None:
        refused = self._out_of_order()
        if self._transaction is not None:
            refused = refused or reply(503, "5.5.1 A mail is under way already")
        path = parse_path("FROM", argument)
        refused = refused or (
            path if isinstance(path, SmtpReply) else refused_sender(path, self.options.max_size_bytes)
        )
        if refused is not None or isinstance(path, SmtpReply):
            answer = refused or reply(501, "5.5.4 Syntax: FROM:<address>")
            self.connection.write(answer)
            self._record_refusal(Transaction(path if isinstance(path, Path) else Path("")), SmtpPhase.MAIL, answer.code)
            return
        self._transaction = Transaction(path)
        if not (await self._answer(SmtpPhase.MAIL, reply(250, "2.1.0 Ok"))).positive:
            self._transaction = None

    async def _rcpt(self, argument: str) -> None:
        transaction = self._transaction
        path = parse_path("TO", argument)
        if transaction is None or isinstance(path, SmtpReply):
            self.connection.write(path if isinstance(path, SmtpReply) else reply(503, "5.5.1 Send MAIL first"))
            return
        refused = refused_recipient(path, utf8=transaction.utf8)
        if refused is None and len(transaction.recipients) >= self.options.max_recipients:
            refused = reply(452, "4.5.3 Too many recipients")
        answer = await self._answer(SmtpPhase.RCPT, refused or reply(250, "2.1.5 Ok"), path.address)
        if answer.positive:
            transaction.recipients.append(path.address)
        else:
            transaction.refused.append((path.address, answer.code))

    async def _rset(self, _argument: str) -> None:
        self._abandon()
        self.connection.write(_OK)

    def _abandon(self) -> None:
        """End the envelope without a mail; recorded if it was refused recipients that left nothing to send."""
        transaction, self._transaction = self._transaction, None
        if transaction is None or not transaction.refused:
            return
        self._record_refusal(transaction, SmtpPhase.RCPT, transaction.refused[0][1])

    def _record_refusal(self, transaction: Transaction, phase: SmtpPhase, code: int) -> None:
        result = Result(accepted=False, status=code, error=f"{phase}: {code}")
        self.ledger.add(NAME, transaction.arrival(phase=phase), result, self.clock())

    async def _data(self, _argument: str) -> None:
        transaction = self._transaction
        if transaction is None or not transaction.recipients:
            self.connection.write(
                reply(503, "5.5.1 Send MAIL first") if transaction is None else reply(554, "5.5.1 No valid recipients")
            )
            return
        go_ahead = reply(354, "End data with <CR><LF>.<CR><LF>")
        if not (await self._answer(SmtpPhase.DATA, go_ahead, *transaction.recipients)).positive:
            return
        raw = await self.connection.body(self.options.max_size_bytes)
        self._transaction = None
        if raw is None:
            self._record_refusal(transaction, SmtpPhase.DATA_END, 552)
            self.connection.write(reply(552, "5.3.4 Message size exceeds fixed limit"))
            return
        await self._deliver(transaction, undotted(raw))

    async def _deliver(self, transaction: Transaction, raw: bytes) -> None:
        mail = read_mail(raw, eight_bit=transaction.eight_bit, utf8=transaction.utf8)
        fault = self.faults.take(
            Call(NAME, tuple(transaction.recipients), mail.reference, SmtpPhase.DATA_END),
        )
        queue_id = secrets.token_hex(6).upper()
        usual = reply(250, f"2.0.0 Ok: queued as {queue_id}")
        answer = usual if fault is None else _programmed(fault, usual)
        drop = None if fault is None else fault.action.drop
        accepted = answer.positive and drop is not Drop.BEFORE_READ
        error = None if accepted else f"{SmtpPhase.DATA_END}: {'dropped' if answer.positive else answer.code}"
        result = Result(
            accepted=accepted,
            status=None if drop in {Drop.BEFORE_READ, Drop.AFTER_ACCEPT} else answer.code,
            provider_message_id=queue_id if accepted else None,
            error=error,
            fault_id=None if fault is None else fault.id,
        )
        arrival = transaction.arrival(mail.reference, tls=self.connection.secure, **mail.content(len(raw)))
        self.ledger.add(NAME, arrival, result, self.clock())
        if fault is None:
            self.connection.write(answer)
        else:
            await self._carry_out(fault, answer)


def _programmed(fault: Fault, usual: SmtpReply) -> SmtpReply:
    smtp = fault.action.smtp
    if smtp is None or smtp.code is None:
        return usual
    enhanced = "4.0.0" if smtp.code < 500 else "5.0.0"
    return reply(smtp.code, smtp.text if smtp.text is not None else f"{enhanced} Programmed")


def _decoded(text: str) -> str:
    """Base64 to text; `*` cancels. Raises ValueError."""
    if text == "*":
        raise ValueError("cancelled")
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except binascii.Error as error:
        raise ValueError("not base64") from error
