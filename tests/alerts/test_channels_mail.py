"""Mails by real servers that speak TLS and ask for a login, and what is said where something is wrong with that."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.support.opensearch.tls import make_certificates
from tests.support.queues import House
from tests.support.receivers import MailReceiver

LOGIN = ("dlq", "s3cret-of-mail")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mail") / "tls"
    make_certificates(folder)
    return folder


@pytest.fixture
def context(certificates: Path) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(certificates / "node.pem", certificates / "node.key")
    return made


async def answer(house: House, mail: MailReceiver, security: str, password: str = LOGIN[1], **more: str) -> str | None:
    """What a test mail comes to; None: it was sent."""
    user = {} if security == "none" else {"smtp_user": LOGIN[0], "smtp_password": password}
    app = house.app(
        alerts={
            "email_to": ["on-call@example.com"], "smtp_host": "127.0.0.1", "smtp_port": mail.port,
            "smtp_security": security, **user, **more,
        }
    )  # fmt: skip
    told: str | None = (await app.dlq.alerts.test("email"))["email"]
    return told


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_mail_goes_by_tls_and_with_a_login(
    house: House, context: ssl.SSLContext, certificates: Path, monkeypatch: pytest.MonkeyPatch, security: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    async with MailReceiver.serve(context, starttls=security == "starttls", login=LOGIN) as mail:
        assert await answer(house, mail, security) is None
        assert [each["To"] for each in mail.mails] == ["on-call@example.com"] * len(mail.mails) and mail.mails
        in_clear = b"".join(mail.heard)
        assert b"AUTH" not in in_clear and b"on-call" not in in_clear
        refused = await answer(house, mail, security, "another")
        assert refused is not None and "refuses the login of alerts.smtp_user (535)" in refused
        assert "another" not in refused and LOGIN[1] not in refused


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_certificate_that_is_not_trusted_is_told_and_no_password_is_sent(
    house: House, context: ssl.SSLContext, security: str
) -> None:
    async with MailReceiver.serve(context, starttls=security == "starttls", login=LOGIN) as mail:
        told = await answer(house, mail, security)
        assert told is not None and "is not trusted" in told and "SSL_CERT_FILE" in told and "127.0.0.1" in told
        assert not mail.mails and b"AUTH" not in b"".join(mail.heard)


async def test_a_certificate_of_another_name_is_told(
    house: House, context: ssl.SSLContext, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    async with MailReceiver.serve(context, login=LOGIN, host="127.0.0.2") as mail:
        told = await answer(house, mail, "tls", smtp_host="127.0.0.2")
        assert told is not None and "is not trusted" in told and "127.0.0.2" in told and not mail.mails


async def test_a_server_of_another_kind_is_told(house: House) -> None:
    async with MailReceiver.serve() as mail:
        for security, words in (("starttls", "offers no STARTTLS"), ("tls", "does not speak TLS from the start")):
            told = await answer(house, mail, security)
            assert told is not None and words in told
        assert not mail.mails
