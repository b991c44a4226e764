"""What `deploy/` and the production pages say exists: commands, options, settings, variables, ports and probe paths."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from mahavishnu.core.api import create_app
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.commands import app as command_line
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.settings.schema import fields, variable
from mahavishnu.settings.sources import FILE_VARIABLE
from tests.support.opensearch.cluster import Cluster
from tests.support.opensearch.tools import tool

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
PAGES = sorted((ROOT / "docs/production").glob("*.md"))
DOCKERFILE = DEPLOY / "docker/Dockerfile"
COMPOSE = yaml.safe_load((DEPLOY / "docker/compose.yaml").read_text(encoding="utf-8"))
MANIFESTS: list[dict[str, Any]] = [
    part
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for part in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
WORKLOADS = [each for each in MANIFESTS if each["kind"] == "StatefulSet"]
# Those of the program, and one that only compose reads.
VARIABLES = {variable(key) for key in fields(MahavishnuSettings)} | {
    FILE_VARIABLE, "MAHAVISHNU_SERVER", "MAHAVISHNU_TOKEN", "MAHAVISHNU_ADMIN_TOKEN",
}  # fmt: skip


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every `mahavishnu …` of the files and pages: where it is, and its arguments."""
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=\S*/mahavishnu (.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
        yield unit.name, shlex.split(line)
    (given,) = re.findall(r"^CMD (.*)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    yield "Dockerfile", json.loads(given)[1:]
    for name, service in COMPOSE["services"].items():
        if "command" in service:
            yield f"compose {name}", service["command"][1:]
    for workload in WORKLOADS:
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        yield f"kubernetes {container['name']}", container["args"][1:]
    for page in PAGES:
        for block in re.findall(r"^ *```(?:bash|console)\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if found := re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:/\S*/)?mahavishnu (.*)", line.strip()):
                    yield page.name, shlex.split(found.group(1), comments=True)


@pytest.mark.parametrize(("where", "arguments"), list(commands()))
def test_every_command_is_one(where: str, arguments: list[str]) -> None:
    """The command line parses it, and runs nothing."""
    command: Any = typer.main.get_command(command_line)
    context = command.make_context("mahavishnu", list(arguments), resilient_parsing=False)
    while rest := [*getattr(context, "_protected_args", ()), *context.args]:
        if not hasattr(command, "get_command"):
            break
        command = command.get_command(context, rest[0])
        assert command is not None, f"{where}: there is no mahavishnu {' '.join(rest)}"
        context = command.make_context(rest[0], rest[1:], parent=context)


@pytest.mark.parametrize("path", [*FILES, *PAGES], ids=lambda path: path.name)
def test_every_variable_is_one(path: Path) -> None:
    named = set(re.findall(r"\bMAHAVISHNU_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    assert named <= VARIABLES


def test_the_settings_of_kubernetes_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and the secrets together; and what they say of ports is what the manifests say."""
    (settings,) = [each["data"] for each in MANIFESTS if each["kind"] == "ConfigMap"]
    (secrets,) = [each["stringData"] for each in MANIFESTS if each["kind"] == "Secret"]
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "mahavishnu.yaml").write_text(settings["mahavishnu.yaml"], encoding="utf-8")
    loaded = MahavishnuSettings.load(tmp_path / "mahavishnu.yaml")
    ports = {"server": loaded.server.port, "worker": loaded.telemetry.metrics_port}
    for workload in WORKLOADS:
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        assert container["ports"][0]["containerPort"] == ports[container["name"]]
        assert workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > loaded.dlq_stop_grace_seconds
    assert str(loaded.dlq_local_url).startswith("sqlite:////var/lib/mahavishnu/")


def test_probes_ask_for_what_there_is() -> None:
    paths = set(create_app(DeadLetterQueue()).openapi()["paths"]) | {"/healthz", "/readyz"}
    services = {each["metadata"]["name"]: each["spec"] for each in MANIFESTS if each["kind"] == "Service"}
    for workload in WORKLOADS:
        spec = workload["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        (port,) = container["ports"]
        probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
        assert {probe["port"] for probe in probes} == {port["name"]}
        assert {probe["path"] for probe in probes} <= paths
        assert workload["spec"]["selector"]["matchLabels"] == workload["spec"]["template"]["metadata"]["labels"]
        service = services[workload["spec"]["serviceName"]]
        assert service["selector"] == workload["spec"]["selector"]["matchLabels"]
        assert service["ports"][0]["targetPort"] == port["name"]
        known = {each["name"] for each in spec["volumes"]} | {
            each["metadata"]["name"] for each in workload["spec"]["volumeClaimTemplates"]
        }
        assert {each["name"] for each in container["volumeMounts"]} == known
    asked = re.findall(r"127\.0\.0\.1:(\d+)(/\w+)", json.dumps({**COMPOSE["services"], "opensearch": None}))
    assert asked == [("8080", "/readyz"), ("9090", "/readyz")]


def test_compose_names_services_and_volumes_that_there_are() -> None:
    for name, service in COMPOSE["services"].items():
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"]), name
        assert {each.split(":")[0] for each in service["volumes"]} <= set(COMPOSE["volumes"]), name


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    """With a program that is there in the place of the one that is not."""
    analyze = tool("systemd-analyze")
    text = unit.read_text(encoding="utf-8").replace("/opt/mahavishnu/bin/mahavishnu", sys.executable)
    (tmp_path / unit.name).write_text(text, encoding="utf-8")
    done = subprocess.run([analyze, "verify", "--man=no", tmp_path / unit.name], capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if unit.name in line]
    assert said == [], done.stderr


@pytest.mark.prove
def test_the_steps_of_the_dockerfile_lead_to_a_server_that_is_ready(tmp_path: Path) -> None:
    """By hand, without a container: what it copies, a new environment, its `pip install`, its command, /readyz."""
    text = DOCKERFILE.read_text(encoding="utf-8")
    for given in re.findall(r"^COPY (.*)$", text, re.MULTILINE):
        *sources, target = given.split()
        folder = tmp_path / ("app" if "app.py" in given else "src") / target
        for source in sources:
            found = ROOT / source
            shutil.copytree(found, folder) if found.is_dir() else shutil.copy(found, _made(folder))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    (install,) = re.findall(r"^RUN pip (install .*)$", text, re.MULTILINE)
    pip: list[str | Path] = [tmp_path / "venv/bin/python", "-m", "pip", *shlex.split(install)]
    done = subprocess.run(pip, cwd=tmp_path / "src", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    environment = {
        "PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(tmp_path / "app"),
        "MAHAVISHNU_SERVER__PORT": "0", "MAHAVISHNU_SERVER__ADMINS": '{"admin": "a-token-that-is-long-enough"}',
        "HOME": str(tmp_path),
    }  # fmt: skip
    arguments = ["127.0.0.1" if each == "0.0.0.0" else each for each in json.loads(command)[1:]]  # loopback only, here
    program = [tmp_path / "venv/bin/mahavishnu", *arguments]
    with subprocess.Popen(program, cwd=tmp_path / "app", env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            found = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
            assert found is not None
            with urllib.request.urlopen(f"{found.group()}/readyz", timeout=20) as answer:
                assert (answer.status, json.load(answer)["status"]) == (200, "ok")
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


@pytest.mark.prove
@pytest.mark.opensearch
async def test_the_backup_page_restores_an_opensearch(tmp_path: Path) -> None:
    """Its two blocks as they stand, on a node of our own: what was saved is there, what came later is not."""
    text = (ROOT / "docs/production/backup.md").read_text(encoding="utf-8")
    backup, restore = (
        re.findall(rf"^```bash\n# {name}\n(.*?)^```", text, re.M | re.S) for name in ("backup", "restore")
    )
    with Cluster(settings={"path.repo": [str(tmp_path)]}) as cluster:
        url = cluster.urls[0]
        environment = {"PATH": os.environ["PATH"], "OPENSEARCH": url, "LOCATION": str(tmp_path / "saved")}

        def run(script: str) -> None:
            done = subprocess.run(["bash", "-ec", script], env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr

        def app() -> MahavishnuApp:
            settings = MahavishnuSettings(
                dlq_store_url=f"{url.replace('http', 'opensearch', 1)}?timeout=30", dlq_local_url="none"
            )
            return MahavishnuApp(settings)

        async with app() as first:
            await first.dlq.enqueue("order-7", {"order": 7}, [], "card declined")
            run(*backup)
            await first.dlq.enqueue("order-8", {"order": 8}, [], "card declined")
        run(*restore)
        async with app() as second:
            letter = await second.dlq.get_task("order-7")
            assert letter is not None and letter.task["order"] == 7
            assert await second.dlq.get_task("order-8") is None
            assert not await second.dlq.integrity.find_unreadable()
            await second.dlq.enqueue("order-9", {"order": 9}, [], "card declined")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_a_wheel_has_the_runbooks_that_the_console_shows(tmp_path: Path) -> None:
    build = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as found:
        assert found.read("mahavishnu/alerts/runbooks.md") == (ROOT / "docs/production/runbooks.md").read_bytes()
