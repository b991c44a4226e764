"""`mahavishnu config`, `plugins` and `classify`: settings, the plugins that answer, and their verdict on an error."""

from __future__ import annotations

import builtins
import importlib
import json as codec
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from mahavishnu.cli.options import session_of
from mahavishnu.cli.output import (
    AsJson,
    ExitCode,
    NotFound,
    print_block,
    print_json,
    print_line,
    print_notice,
    print_table,
)
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.classify.chain import Chain
    from mahavishnu.classify.plugins import PluginInfo
    from mahavishnu.classify.verdict import Verdict
    from mahavishnu.settings.settings import MahavishnuSettings

DISABLED = "disabled_plugins"
# What a plugin is shown to see whether it answers: an exception, and a text.
PROBES: tuple[BaseException | str, ...] = (RuntimeError("is anybody there?"), "is anybody there?")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name as `plugins list` shows it.")]
STDIN = "-"
_DOTTED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*")
_PLAIN = re.compile(r"[A-Za-z][\w./-]*")
_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


# --- config


def show_settings(
    context: typer.Context,
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="Only these settings.")] = None,
    json: AsJson = False,
) -> None:
    """Show every setting and where its value comes from. Secrets are masked."""
    settings = session_of(context).settings
    found = settings.describe()
    known = [setting.key for setting in found]
    for key in keys or ():
        if key not in known:
            raise NotFound.among("setting", key, known)
    chosen = [setting for setting in found if not keys or setting.key in keys]
    if json:
        file = settings.read_from.label if settings.read_from else None
        print_json({"file": file, "settings": [asdict(setting) for setting in chosen]})
        return
    rows = ((each.key, each.value, each.origin) for each in chosen)
    print_table(("key", "value", "from"), rows, empty="no settings", texts=("value", "from"))


def check_settings(context: typer.Context, json: AsJson = False) -> None:
    """Check the settings: what keeps a program from starting, and what may surprise later. Opens nothing."""
    from mahavishnu.settings.problems import check

    report = check(session_of(context).settings_file)
    if report.settings is not None:
        report = replace(report, problems=(*report.problems, *_refusals(report.settings)))
    file = report.settings.read_from if report.settings else None
    if json:
        found = {"problems": list(report.problems), "warnings": list(report.warnings)}
        print_json({"ok": report.ok, "file": file.label if file else None, **found})
    else:
        for problem in report.problems:
            print_line(f"problem  {problem}")
        for warning in report.warnings:
            print_line(f"warning  {warning}")
        if report.ok:
            print_line(f"the settings can be used ({file.label if file else 'no file, only defaults and variables'})")
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)


def _refusals(settings: MahavishnuSettings) -> Iterator[str]:
    """Yield settings that `serve` or a worker would refuse."""
    from mahavishnu.classify.yaml_rules import YamlRules
    from mahavishnu.settings.wiring import access_of

    origins = settings.origins()
    rules = settings.classifier_rules
    try:
        if rules and not (isinstance(rules, str) and not Path(rules).is_file()):  # which is a problem already
            YamlRules.of(rules)
    except InvalidInput as problem:
        yield f"{origins['classifier_rules']}: classifier_rules: {problem}"
    try:
        access_of(settings).check_address(settings.server.host)
    except InvalidInput as problem:
        given = [key for key, origin in origins.items() if key.startswith("server.") and origin != "default"]
        where = sorted({origins[key] for key in given}) or ["default"]
        yield f"{', '.join(where)}: server: {problem}"


# --- plugins


def list_plugins(context: typer.Context, json: AsJson = False) -> None:
    """List the plugins in the order in which they are asked, then those that are not asked and why."""
    report = _chain(context).plugins.report()
    if json:
        print_json({"plugins": [_record(info) for info in report]})
        return
    rows = ((each.name, each.state, ", ".join(each.hooks), each.version, each.origin, each.why) for each in report)
    print_table(
        ("name", "state", "hooks", "version", "from", "why"), rows, empty="no plugins", texts=("hooks", "from", "why")
    )


def check_plugins(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this plugin.")] = None,
    json: AsJson = False,
) -> None:
    """Load every plugin and show each an error: fails if one is broken, raises, takes too long or answers nonsense."""
    chain = _chain(context)
    report = [info for info in chain.plugins.report() if name in (None, info.name)]
    if not report:
        raise NotFound.among("plugin", name or "", _names(chain))
    said = [each for probe in PROBES for each in chain.explain(probe).trail]
    faults = {each.plugin: each.outcome for each in reversed(said) if each.fault}
    found = [
        {
            **_record(info),
            "fault": faults.get(info.name) or (info.why if info.state in ("broken", "quarantined") else ""),
        }
        for info in report
    ]
    ok = not any(each["fault"] for each in found)
    if json:
        print_json({"ok": ok, "plugins": found})
    else:
        rows = ((each["name"], "fault" if each["fault"] else each["state"], each["fault"]) for each in found)
        print_table(("name", "state", "fault"), rows, empty="no plugins")
    if not ok:
        raise typer.Exit(ExitCode.FAILED)


def disable_plugin(context: typer.Context, name: Name) -> None:
    """Print the line of the settings that silences a plugin."""
    chain = _chain(context)
    if name not in session_of(context).settings.disabled_plugins and name not in (known := _names(chain)):
        raise NotFound.among("plugin", name, known)
    _print_setting(context, name, disabled=True)


def enable_plugin(context: typer.Context, name: Name) -> None:
    """Print the line of the settings with which a plugin is asked again."""
    _print_setting(context, name, disabled=False)


def _print_setting(context: typer.Context, name: str, *, disabled: bool) -> None:
    settings = session_of(context).settings
    present = list(settings.disabled_plugins)
    if (name in present) is disabled:
        print_line(f"plugin {name} is {'disabled already' if disabled else 'not disabled'}")
        return
    wanted = [*present, name] if disabled else [each for each in present if each != name]
    file, origin = settings.read_from, settings.origins()[DISABLED]
    if origin.startswith("MAHAVISHNU_"):
        print_line(f"{origin}={','.join(wanted)}")
        where = f"set this variable, which overrules {file.label if file else 'the settings file'}"
    else:
        print_line(f"{DISABLED}: [{', '.join(map(yaml_scalar, wanted))}]")
        replaced = f", in the place of line {origin.rpartition(':')[2]}" if ":" in origin else ""
        where = f"put this line into {file.label if file else 'settings/mahavishnu.yaml'}{replaced}"
    print_notice(f"{where}; it counts for new processes, and for running workers after a reload (SIGHUP)")


def yaml_scalar(text: str) -> str:
    """Return a text as YAML has to write it.

    >>> yaml_scalar("http"), yaml_scalar("acme: shop"), yaml_scalar("no")
    ('http', '"acme: shop"', '"no"')
    """
    return text if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED else codec.dumps(text)


def _chain(context: typer.Context) -> Chain:
    from mahavishnu.settings.wiring import chain_from

    return chain_from(session_of(context).settings)


def _record(info: PluginInfo) -> dict[str, Any]:
    shown = {"name": info.name, "state": info.state.value, "hooks": list(info.hooks)}
    return {**shown, "version": info.version, "origin": info.origin, "why": info.why}


def _names(chain: Chain) -> list[str]:
    return [info.name for info in chain.plugins.report()]


# --- classify


def classify(
    context: typer.Context,
    error: Annotated[
        str,
        typer.Argument(
            metavar="ERROR",
            help="An error text, an exception such as builtins.ConnectionResetError, or - to read standard input.",
        ),
    ],
    explain: Annotated[bool, typer.Option("--explain", help="Show what every plugin says.")] = False,
    adapter: Annotated[
        str | None, typer.Option("--adapter", metavar="NAME", help="As if a workflow of this adapter had failed.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Say what kind of failure an error is, and how it would be retried."""
    from mahavishnu.classify.verdict import Context
    from mahavishnu.settings.wiring import chain_from

    settings = session_of(context).settings
    given = sys.stdin.read() if error == STDIN else error
    if not given.strip():
        raise InvalidInput("give an error text or the name of an exception")
    subject = exception_by_name(given) or given
    explanation = chain_from(settings).explain(subject, Context(adapter=adapter))
    verdict = explanation.verdict
    policy, budget = _consequence(verdict, settings)
    shown = ("plugin", "outcome", "counts", "fault")
    trail = [
        {**{name: getattr(each, name) for name in shown}, "seconds": round(each.seconds, 6)}
        for each in explanation.trail
    ]
    if json:
        print_json(
            {
                "taken_as": "text" if isinstance(subject, str) else "exception",
                "category": verdict.category.value,
                "reason": verdict.reason,
                "author": verdict.author,
                "policy": policy,
                "max_retries": budget,
                "retry_in_seconds": verdict.retry_in.total_seconds() if verdict.retry_in is not None else None,
                "tags": list(verdict.tags),
                **({"trail": trail} if explain else {}),
            }
        )
        return
    fields: dict[str, Any] = {
        "category": verdict.category.value,
        "reason": verdict.reason,
        "author": verdict.author,
        "retried": _retry_text(policy, budget, verdict.retry_in),
    }
    if verdict.tags:
        fields["tags"] = ", ".join(verdict.tags)
    print_block(fields)
    if explain:
        print_line("")
        marks = ("*" if each["counts"] else "!" if each["fault"] else " " for each in trail)
        rows = ((mark, each["plugin"], each["outcome"]) for mark, each in zip(marks, trail, strict=True))
        print_table(("", "asked", "said"), rows, empty="nobody was asked")


def exception_by_name(text: str) -> BaseException | None:
    """Return an exception of the type that `text` names, or None if it names none that can be imported.

    >>> exception_by_name("builtins.ConnectionResetError")
    ConnectionResetError()
    >>> exception_by_name("the connection was reset")
    """
    if not _DOTTED.fullmatch(text):
        return None
    module, _, name = text.rpartition(".")
    kind = getattr(_import_name(module) if module else builtins, name, None)
    if not isinstance(kind, type) or not issubclass(kind, BaseException):
        return None
    for arguments in ((), ("",)):
        try:
            return kind(*arguments)
        except Exception:  # it wants other arguments
            continue
    return kind.__new__(kind)


def _import_name(name: str) -> Any:
    """Return a module, or a class in one; None if there is none. Raises InvalidInput if its import fails."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not (name == missing.name or name.startswith(f"{missing.name}.")):
            raise InvalidInput(f"{name} cannot be imported: {missing}") from missing
        outer, _, inner = name.rpartition(".")
        return getattr(_import_name(outer), inner, None) if outer else None
    except Exception as problem:
        raise InvalidInput(f"{name} cannot be imported: {type(problem).__name__}: {problem}") from problem


def _consequence(verdict: Verdict, settings: MahavishnuSettings) -> tuple[str, int]:
    """Return the policy and the number of retries that a captured failure with this verdict gets."""
    from mahavishnu.classify.verdict import POLICY_OF

    by_category = settings.dlq_automatic_policy == "category"
    usual = POLICY_OF[verdict.category].value if by_category else settings.dlq_default_retry_policy
    policy = verdict.policy or usual
    if verdict.max_retries is not None:
        return str(policy), verdict.max_retries
    return str(policy), settings.dlq_category_max_retries.get(verdict.category, settings.dlq_default_max_retries)


def _retry_text(policy: str, budget: int, retry_in: timedelta | None) -> str:
    if policy == "never" or not budget:
        return "never"
    first = f", first in {retry_in.total_seconds():g} s" if retry_in is not None else ""
    return f"{policy}, at most {budget} {'time' if budget == 1 else 'times'}{first}"
