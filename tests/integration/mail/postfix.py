"""A Postfix of its own, from the distribution's packages: what it takes, it delivers to a Maildir. Needs root."""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ops.simulator.credential import tls
from shared.providers.email.smtp.settings import SmtpSettings

DOMAINS: Final = ("example.com", "xn--iek-1lab.example")
NOBODY: Final = "unknown"
"""Local parts that begin so have no mailbox; every other one has."""
SIZE_LIMIT: Final = 200_000

_MAIN: Final = """\
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
myhostname = mx.example.com
mydestination =
alias_maps =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtp_dns_support_level = disabled
virtual_mailbox_domains = {domains}
virtual_mailbox_base = {folder}/mail
virtual_mailbox_maps = regexp:{folder}/etc/mailboxes
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
smtpd_recipient_restrictions = reject_unauth_destination
smtpd_tls_security_level = may
smtpd_tls_loglevel = 1
smtpd_tls_cert_file = {folder}/tls/server.pem
smtpd_tls_key_file = {folder}/tls/server-key.pem
message_size_limit = {size_limit}
smtputf8_enable = yes
"""
_MASTER: Final = """\
127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
proxymap unix - - n - - proxymap
error unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""


@dataclass(frozen=True)
class Delivered:
    """One mail as it lies in the Maildir. content: what came after DATA, without what servers put in front of it."""

    to: str
    return_path: str
    content: bytes
    whole: bytes


@dataclass(frozen=True)
class Postfix:
    folder: Path
    port: int

    def settings(self, **changes: Any) -> SmtpSettings:
        values: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "security": "starttls",
            "ca_file": self.folder / "tls/ca.pem",
            "from_address": "no-reply@shop.example",
            "from_name": "Mağaza",
        }
        return SmtpSettings(**(values | changes))

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    async def delivered(self, count: int) -> list[Delivered]:
        """So many mails, by recipient, and no more of them: taken out of the Maildir as they are read."""
        deadline = time.monotonic() + 60
        while len(files := list((self.folder / "mail/all/new").glob("*"))) < count:
            assert time.monotonic() < deadline, self.log
            await asyncio.sleep(0.02)
        found = sorted((_read(file) for file in files), key=lambda mail: mail.to)
        for file in files:
            file.unlink()
        assert len(found) == count
        return found


def _read(file: Path) -> Delivered:
    """Split what virtual(8) and smtpd(8) put in front of a mail from the mail as it was sent."""
    fields: dict[str, str] = {}
    rest = whole = file.read_bytes()
    while True:
        end = 0
        while True:  # to the end of this field, its folded lines included
            end = rest.index(b"\n", end) + 1
            if rest[end : end + 1] not in {b" ", b"\t"}:
                break
        name, _, value = rest[:end].decode().partition(":")
        if name not in {"Return-Path", "X-Original-To", "Delivered-To", "Received"}:
            break
        fields.setdefault(name, value.strip())
        rest = rest[end:]
    return Delivered(fields["X-Original-To"], fields["Return-Path"].strip("<>"), rest.replace(b"\n", b"\r\n"), whole)


@contextmanager
def postfix() -> Iterator[Postfix]:
    """A server of its own, ended with the block. Its folder is one that Postfix's own users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="ulak-postfix-"))
    try:
        folder.chmod(0o755)
        port = _free_port()
        _configure(folder, port)
        command = ["/usr/sbin/postfix", "-c", str(folder / "etc")]
        subprocess.run([*command, "start"], check=True, capture_output=True, timeout=60)
        try:
            yield Postfix(folder, port)
        finally:
            subprocess.run([*command, "stop"], check=True, capture_output=True, timeout=60)
    finally:
        shutil.rmtree(folder)


def _configure(folder: Path, port: int) -> None:
    for name in ("etc", "queue", "data", "mail", "tls"):
        (folder / name).mkdir()
    owner, user = pwd.getpwnam("postfix"), pwd.getpwnam("nobody")
    os.chown(folder / "data", owner.pw_uid, owner.pw_gid)
    os.chown(folder / "mail", user.pw_uid, user.pw_gid)
    tls(folder / "tls", datetime.now(UTC))
    main = _MAIN.format(
        folder=folder, domains=" ".join(DOMAINS), uid=user.pw_uid, gid=user.pw_gid, size_limit=SIZE_LIMIT
    )
    (folder / "etc/main.cf").write_text(main, encoding="ascii")
    (folder / "etc/master.cf").write_text(_MASTER.format(port=port), encoding="ascii")
    (folder / "etc/mailboxes").write_text(f"!/^{NOBODY}/ all/\n", encoding="ascii")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
