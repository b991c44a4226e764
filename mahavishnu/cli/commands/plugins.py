"""`mahavishnu plugins`: which there are, whether they work, and silencing one for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahavishnu.cli import settings_file
from mahavishnu.cli.exits import ExitCode, Failed, NotFound
from mahavishnu.cli.output import AsJson, print_json, print_line, print_table
from mahavishnu.cli.session import session_of

if TYPE_CHECKING:
    from mahavishnu.classify.chain import Chain
    from mahavishnu.classify.plugins import PluginInfo

app = typer.Typer(help="List, check and silence the classifier plugins.", no_args_is_help=True, rich_markup_mode=None)
SETTING = "disabled_plugins"
# What a plugin is shown to see whether it answers: an exception, and a text.
PROBES: tuple[BaseException | str, ...] = (RuntimeError("is anybody there?"), "is anybody there?")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name as `plugins list` shows it.")]


@app.command("list")
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


@app.command()
def check(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this plugin.")] = None,
    json: AsJson = False,
) -> None:
    """Load every plugin and show each an error: fails if one is broken, raises, takes too long or answers nonsense."""
    chain = _chain(context)
    report = [info for info in chain.plugins.report() if name in (None, info.name)]
    if not report:
        raise NotFound.among("plugin", name or "", _names(chain))
    faults = _faults(chain)
    found = [{**_record(info), "fault": faults.get(info.name) or _not_asked(info)} for info in report]
    ok = not any(each["fault"] for each in found)
    if json:
        print_json({"ok": ok, "plugins": found})
    else:
        rows = ((each["name"], "fault" if each["fault"] else each["state"], each["fault"]) for each in found)
        print_table(("name", "state", "fault"), rows, empty="no plugins")
    if not ok:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def disable(context: typer.Context, name: Name) -> None:
    """Do not ask a plugin any more: put its name into `disabled_plugins` of the settings file."""
    _switch(context, name, asked=False)


@app.command()
def enable(context: typer.Context, name: Name) -> None:
    """Ask a plugin again: take its name out of `disabled_plugins` of the settings file."""
    _switch(context, name, asked=True)


def _switch(context: typer.Context, name: str, *, asked: bool) -> None:
    settings = session_of(context).settings
    disabled = list(settings.disabled_plugins)
    if (name in disabled) is not asked:
        print_line(f"plugin {name} is {'not disabled' if asked else 'disabled already'}")
        return
    if not asked and name not in (known := _names(_chain(context))):
        raise NotFound.among("plugin", name, known)
    wanted = [each for each in disabled if each != name] if asked else [*disabled, name]
    listed = f"[{', '.join(map(settings_file.scalar, wanted))}]"
    file, origin = settings.read_from, settings.origins()[SETTING]
    if file is None:
        raise Failed(
            f"there is no settings file to write to: put `{SETTING}: {listed}` into settings/mahavishnu.yaml, "
            f"or set MAHAVISHNU_{SETTING.upper()}={','.join(wanted)}"
        )
    if origin != "default" and not origin.startswith(f"{file.label}:"):
        raise Failed(f"{origin} overrules {file.label}: change it there, to {','.join(wanted) or 'nothing'}")
    settings_file.write_list(file.path, SETTING, wanted)
    print_line(f"plugin {name} is {'asked again' if asked else 'disabled'}: {SETTING} in {file.label} is now {listed}")
    print_line("it counts for new processes, and for running workers after a reload (SIGHUP)")


def _chain(context: typer.Context) -> Chain:
    from mahavishnu.core.wiring import chain_from

    return chain_from(session_of(context).settings)


def _record(info: PluginInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "state": info.state.value,
        "hooks": list(info.hooks),
        "version": info.version,
        "origin": info.origin,
        "why": info.why,
    }


def _faults(chain: Chain) -> dict[str, str]:
    """What is wrong with the answers of the plugins that are asked."""
    said = [each for probe in PROBES for each in chain.explain(probe).trail]
    return {each.plugin: each.outcome for each in reversed(said) if each.fault}


def _not_asked(info: PluginInfo) -> str:
    return info.why if info.state in ("broken", "quarantined") else ""


def _names(chain: Chain) -> list[str]:
    return [info.name for info in chain.plugins.report()]
