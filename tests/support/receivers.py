"""Servers that receive what alerts send, on loopback: HTTP and SMTP, as real as sockets are."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any


@dataclass
class HttpReceiver:
    """Takes POST requests; it answers with `status`, or never if that is None."""

    status: int | None = 200
    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.requests]

    async def reached(self, count: int) -> None:
        while len(self.requests) < count:
            self._came.clear()
            await self._came.wait()

    @classmethod
    @asynccontextmanager
    async def serve(cls, status: int | None = 200) -> AsyncIterator[HttpReceiver]:
        made = cls(status)
        server = await asyncio.start_server(made._answer, "127.0.0.1", 0)
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield made
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((head[0].split()[1], headers, body))
        self._came.set()
        if self.status is None:
            await reader.read()
        else:
            writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()


@dataclass
class MailReceiver:
    """Takes mails by SMTP; it refuses addresses that begin with `nobody`.

    With a `context` it speaks TLS, from the start or after `STARTTLS`; with a `login`, a name and a password, it takes
    mails of nobody else, and no password in clear.
    """

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    context: ssl.SSLContext | None = None
    starttls: bool = False
    login: tuple[str, str] | None = None
    heard: list[bytes] = field(default_factory=list)  #: what came before TLS began

    @classmethod
    @asynccontextmanager
    async def serve(
        cls,
        context: ssl.SSLContext | None = None,
        *,
        starttls: bool = False,
        login: tuple[str, str] | None = None,
        host: str = "127.0.0.1",
    ) -> AsyncIterator[MailReceiver]:
        made = cls(context=context, starttls=starttls, login=login)
        at_once = None if starttls else context
        server = await asyncio.start_server(made._converse, host, 0, ssl=at_once)
        made.port = server.sockets[0].getsockname()[1]
        try:
            yield made
        finally:
            server.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        safe, known = self.context is not None and not self.starttls, self.login is None
        while line := await reader.readline():
            if not safe:
                self.heard.append(line)
            verb = line.split(None, 1)[0].upper() if line.strip() else b""
            if verb == b"EHLO":
                more = [b"STARTTLS"] if self.starttls and not safe else [b"AUTH PLAIN"] if self.login and safe else []
                lines = [b"here", *more]
                writer.write(b"".join(b"250-%s\r\n" % each for each in lines[:-1]) + b"250 %s\r\n" % lines[-1])
            elif verb == b"STARTTLS" and self.starttls and self.context is not None:
                writer.write(b"220 go on\r\n")
                try:
                    await writer.start_tls(self.context)
                except (ssl.SSLError, ConnectionError):  # the other one does not trust us
                    break
                safe = True
            elif verb == b"AUTH":
                given = b64decode(line.split()[2]).decode().split("\0")[1:]
                known = safe and self.login is not None and tuple(given) == self.login
                writer.write(b"235 welcome\r\n" if known else b"535 unknown\r\n")
            elif verb == b"MAIL" and not known:
                writer.write(b"530 log in\r\n")
            elif verb == b"RCPT" and b"<nobody" in line:
                writer.write(b"550 no such address\r\n")
            elif verb == b"DATA":
                writer.write(b"354 go on\r\n")
                data = (await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n.")
                self.mails.append(message_from_bytes(data, policy=policy.default))
                writer.write(b"250 taken\r\n")
            else:
                self.recipients += [line.decode().strip()] if verb == b"RCPT" else []
                writer.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
            if verb == b"QUIT":
                break
        writer.close()
