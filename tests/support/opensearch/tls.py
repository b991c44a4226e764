"""Certificates for one secure cluster: an authority of its own and one certificate for all nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from .tools import tool

_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650"
_COMMANDS = (
    # without keyUsage, Python 3.13 does not accept the authority
    f"req -x509 {_KEY} -keyout ca.key -out ca.pem -subj /CN=ca -addext keyUsage=critical,keyCertSign",
    f"req -new {_KEY} -keyout node.key -out node.csr -subj /CN=node -addext subjectAltName=IP:127.0.0.1,DNS:localhost",
    "x509 -req -in node.csr -CA ca.pem -CAkey ca.key -out node.pem -days 3650 -copy_extensions copy",
)


def make_certificates(directory: Path) -> None:
    """Writes ca.pem, node.pem and node.key."""
    openssl = tool("openssl")
    directory.mkdir(parents=True)
    for command in _COMMANDS:
        subprocess.run([openssl, *command.split()], cwd=directory, check=True, capture_output=True)


def security_settings() -> dict[str, Any]:
    """What opensearch.yml says about these files, and about who may administer users over HTTP."""
    settings: dict[str, Any] = {
        "plugins.security.ssl.http.enabled": True,
        "plugins.security.ssl.transport.enforce_hostname_verification": False,
        "plugins.security.nodes_dn": ["CN=node"],
        "plugins.security.allow_default_init_securityindex": True,
        "plugins.security.restapi.roles_enabled": ["all_access"],
    }
    for layer in ("http", "transport"):
        settings[f"plugins.security.ssl.{layer}.pemtrustedcas_filepath"] = "ca.pem"
        settings[f"plugins.security.ssl.{layer}.pemcert_filepath"] = "node.pem"
        settings[f"plugins.security.ssl.{layer}.pemkey_filepath"] = "node.key"
    return settings
