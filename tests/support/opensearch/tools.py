"""The external programs that tests need: a JDK, Maven and openssl for OpenSearch, a browser, the monitoring."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_cache = os.environ.get("MAHAVISHNU_OPENSEARCH_CACHE") or "~/.cache/mahavishnu-opensearch"
STDERR = 2
CACHE = Path(_cache).expanduser().absolute()

_DEBIAN_PACKAGE = {
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "mvn": "maven",
    "openssl": "openssl",
    "chromium": "chromium",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
    "nginx": "nginx-light",
    "systemd-analyze": "systemd",
}


class ToolMissing(RuntimeError):
    pass


def tool(name: str) -> str:
    """The path of a program; root on Debian gets it installed if need be."""
    path = _find(name)
    if path is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with exclusive("apt"):
            path = _find(name) or _install(name)
    if path is None:
        packages = " ".join(sorted(set(_DEBIAN_PACKAGE.values())))
        raise ToolMissing(
            f"{name} not found: install it (Debian: {_DEBIAN_PACKAGE[name]}); all that the tests need is {packages}"
        )
    return path


def is_installed(name: str) -> bool:
    return _find(name) is not None


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Lets one process at a time do something; the lock of a process that dies is released."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _find(name: str) -> str | None:
    java_home = os.environ.get("JAVA_HOME")
    return (java_home and shutil.which(name, path=f"{java_home}/bin")) or shutil.which(name)


def _install(name: str) -> str | None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", _DEBIAN_PACKAGE[name]]):
        # The number, as `sys.stderr` of a test that captures it is no file.
        subprocess.run(["apt-get", "-q", *arguments], env=environment, stdout=STDERR, check=False)
    return _find(name)
