"""Reading the environment and the YAML file: what is refused, and which place is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from mahavishnu.core.config import MahavishnuSettings, SettingsError
from tests.support.yaml_bombs import bomb


def yaml(text: str, path: str = "settings/mahavishnu.yaml") -> Path:
    """A settings file below the working directory."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def of_file(content: str | bytes) -> tuple[str, ...]:
    """What `load` says about a settings file with this content, without the name of the file."""
    file = Path("settings/mahavishnu.yaml")
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SettingsError) as refused:
        MahavishnuSettings.load()
    assert all(problem.startswith(f"{file}:") for problem in refused.value.problems)
    return tuple(problem.removeprefix(f"{file}:") for problem in refused.value.problems)


def of_variables(monkeypatch: pytest.MonkeyPatch, **variables: str) -> tuple[str, ...]:
    """What `load` says about these variables, named without their prefix; `()` if nothing."""
    for name, value in variables.items():
        monkeypatch.setenv(f"MAHAVISHNU_{name}", value)
    try:
        MahavishnuSettings.load()
    except SettingsError as refused:
        return refused.problems
    return ()


def test_the_file_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument of `load` before MAHAVISHNU_SETTINGS before the usual place; a chosen file has to exist."""
    yaml("dlq_max_size: 101\n")
    yaml("dlq_max_size: 102\n", "two.yaml")
    yaml("dlq_max_size: 103\n", "three.yaml")
    monkeypatch.setenv("MAHAVISHNU_SETTINGS", "two.yaml")

    assert MahavishnuSettings().dlq_max_size == 102
    settings = MahavishnuSettings.load("three.yaml")
    assert settings.dlq_max_size == 103
    assert settings.origins()["dlq_max_size"] == "three.yaml:1"
    with pytest.raises(SettingsError, match=r"^no\.yaml: there is no such file$"):
        MahavishnuSettings.load(path="no.yaml")
    monkeypatch.setenv("MAHAVISHNU_SETTINGS", "gone.yaml")
    with pytest.raises(ValidationError, match=r"gone\.yaml: there is no such file"):
        MahavishnuSettings()


def test_keys_and_sections_may_be_written_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """As variables may; the precedence of the sources stays, and in one source the usual spelling wins."""
    yaml("DLQ_Max_Size: 101\nCIRCUIT:\n  failure_threshold: 3\nRETRY_JITTER: true\nretry_jitter: false\n")
    settings = MahavishnuSettings(Dlq_Stop_Grace_Seconds=7)
    found = settings.dlq_max_size, settings.circuit.failure_threshold, settings.retry_jitter
    assert (*found, settings.dlq_stop_grace_seconds) == (101, 3, False, 7)
    origins = settings.origins()
    assert origins["dlq_max_size"] == "settings/mahavishnu.yaml:1"
    assert origins["circuit.failure_threshold"] == "settings/mahavishnu.yaml:3"
    monkeypatch.setenv("MAHAVISHNU_DLQ_MAX_SIZE", "102")
    assert MahavishnuSettings().dlq_max_size == 102
    assert MahavishnuSettings(DLQ_MAX_SIZE=103).dlq_max_size == 103


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a: b\ndlq_max_sise: 300", "2: unknown setting 'dlq_max_sise'; did you mean dlq_max_size?"),
        ("circut:\n  failure_threshold: 3", "2: unknown setting 'circut'; did you mean circuit?"),
        ("circuit:\n  treshold: 3", "2: unknown setting 'circuit.treshold'"),
        ("circuit:\n  cooloff_second: 3", "2: unknown setting 'circuit.cooloff_second'; did you mean circuit.c"),
        ("failure_threshold: 3", "1: unknown setting 'failure_threshold'; did you mean circuit.failure_threshold?"),
        ("_env_file: x", "1: unknown setting '_env_file'"),
        ("on: 3", "1: unknown setting 'on'"),
        ("\n\ndlq_max_size: many", "3: dlq_max_size must be a whole number from 100 to 100000, got 'many'"),
        ("dlq_max_size:", "1: dlq_max_size must be a whole number from 100 to 100000, got None"),
        ("dlq_default_max_retries: yes", "1: dlq_default_max_retries must be a whole number from 0 to 10, got True"),
        ("dlq_max_size:\n  a: 1", "2: dlq_max_size must be a whole number from 100 to 100000, got a map"),
        (
            "dlq_max_size:\n  dlq_store_password: hunter2",
            "2: dlq_max_size must be a whole number from 100 to 100000, got a map",
        ),
        ("redact_keys:\n  dlq_store_password: hunter2", "2: redact_keys must be a list, each item text that is not em"),
        ("circuit: 3", "1: circuit must be a section with failure_threshold, cooloff_seconds, got 3"),
        ("redact_keys: token", "1: redact_keys must be a list, each item text that is not empty, got 'token'"),
        ("dlq_store_user: 12", "1: dlq_store_user must be text, got 12; put it in quotes"),
        ("dlq_store_password: 12", "1: dlq_store_password must be text; put it in quotes"),
        ("dlq_local_url: no", "1: dlq_local_url must be a store's URL, or none, got False; put it in quotes"),
        ("dlq_strategy: 2026-02-31", "1: dlq_strategy cannot be read; put the value in quotes"),
        (
            "dlq_strategy: " + "x" * 90,
            "1: dlq_strategy must be one of 'automatic', 'selective', 'manual', 'disabled', ",
        ),
    ],
)
def test_a_fault_is_named_with_its_line(content: str, problem: str) -> None:
    """And with what is allowed or was probably meant."""
    found = of_file(content)

    assert found[-1].startswith(problem)
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a: 1\n  b: 2", "2: is not valid YAML: mapping values are not allowed here"),
        ("a: [1,\nb: 2", "2: is not valid YAML: "),
        ("a: 1\n\tb: 2", "2: is not valid YAML: "),
        ("a: 1\n---\nb: 2", "2: is not valid YAML: but found another document"),
        ("a: *hunter2", "1: is not valid YAML: a value that begins with * & or ! has to be put in quotes"),
        ("a: !hunter2 x", "1: is not valid YAML: a value that begins with * & or ! has to be put in quotes"),
        ("- a", "1: must be a list of `key: value` lines"),
        ("\n[a]: 1", "2: has a key that is no text"),
        (b"a: 1\nb: \xff", "2: is not UTF-8"),
        (b"a: 1\nb: \x00", "2: holds a character that YAML does not allow"),
        ("dlq_max_size: 300\n\ndlq_max_size: 400", "3: 'dlq_max_size' is given twice, first in line 1"),
        ("circuit:\n  x: 1\n  y: 2\n  x: 3", "4: 'x' is given twice, first in line 2"),
        ("classifier_rules:\n- {a: 1}\n- {a: 1, a: 2}", "3: 'a' is given twice, first in line 3"),
        (bomb("server"), "1: means more than 100000 values, by its aliases"),
        ("circuit: &a\n  b: *a", "1: is nested too deeply, or contains itself"),
        ("classifier_rules: " + "[" * 5000 + "]" * 5000, "1: is nested too deeply, or contains itself"),
    ],
)
def test_a_file_that_is_not_valid_yaml(content: str | bytes, problem: str) -> None:
    """Is refused as a whole, with the line, and without quoting what may be a password."""
    (found,) = of_file(content)

    assert found.startswith(problem)
    assert "hunter2" not in found


def test_a_file_that_cannot_be_read(elsewhere: Path) -> None:
    """A directory, for example; there is no line then."""
    (elsewhere / "settings/mahavishnu.yaml").mkdir()
    with pytest.raises(SettingsError, match=r"^settings/mahavishnu\.yaml: cannot be read: "):
        MahavishnuSettings.load()
    with pytest.raises(ValidationError, match="cannot be read"):
        MahavishnuSettings()


@pytest.mark.parametrize("content", ["", "# nothing\n", "---\n", "\ufeffdlq_enabled: true", "circuit:\n# x: 1\n"])
def test_files_without_values(content: str) -> None:
    """All defaults: also for a section whose lines are all commented out, and with a byte-order mark."""
    Path("settings/mahavishnu.yaml").write_text(content, encoding="utf-8")

    assert MahavishnuSettings.load().model_dump() == MahavishnuSettings.load("/dev/null").model_dump()


def test_blank_lists_and_maps_are_empty() -> None:
    """As a section with nothing behind its key."""
    Path("settings/mahavishnu.yaml").write_text("redact_keys:\ndlq_category_max_retries:\nclassifier_rules:\n")

    assert MahavishnuSettings.load().redact_keys == ()


def test_rules_are_kept_as_they_are() -> None:
    """Anchors and merges included; they are checked where they are used."""
    Path("settings/mahavishnu.yaml").write_text(
        "classifier_rules:\n- &a {when: {text: x}, 1: 2}\n- {<<: *a, then: transient}\n"
    )

    assert MahavishnuSettings.load().classifier_rules == (
        {"when": {"text": "x"}, 1: 2},
        {"when": {"text": "x"}, 1: 2, "then": "transient"},
    )


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("DLQ_MAX_SISE", "300", "unknown setting 'dlq_max_sise'; did you mean MAHAVISHNU_DLQ_MAX_SIZE?"),
        ("CIRCUIT_FAILURE_THRESHOLD", "3", "unknown setting 'circuit_failure_threshold'; did you mean MAHAVISHNU_CIRC"),
        ("CIRCUIT__TRESHOLD", "3", "unknown setting 'circuit.treshold'"),
        ("XYZZY", "3", "unknown setting 'xyzzy'"),
        ("_ENV_FILE", "x", "unknown setting '_env_file'"),
        ("DLQ_RETRY_INTERVAL_SECONDS", "abc", "dlq_retry_interval_seconds must be a whole number from 10 to 3600, got"),
        ("DLQ_ENABLED", "perhaps", "dlq_enabled must be true or false, got 'perhaps'"),
        ("CIRCUIT__COOLOFF_SECONDS", "0", "circuit.cooloff_seconds must be a whole number from 1 to 86400, got '0'"),
        ("DLQ_MAX_SIZE__X", "5", "dlq_max_size must be a whole number from 100 to 100000, got a map"),
        ("CIRCUIT", "5", "circuit must be a section with failure_threshold, cooloff_seconds, got '5'"),
        ("CIRCUIT", "{", "circuit is not valid JSON: Expecting property name enclosed in double quotes at column 2"),
        ("CLASSIFIER_RULES", "[" * 99999, "classifier_rules is "),
        (
            "CLASSIFIER_RULES",
            '{"a": 1}',
            "classifier_rules must be a list of rules, or the path of a YAML file with one",
        ),
        ("DLQ_STORE_HEADERS", '{"a": hunter2}', "dlq_store_headers is not valid JSON: Expecting value at column 7"),
    ],
)
def test_a_fault_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, problem: str
) -> None:
    """Both ways to make settings name the variable."""
    (found,) = of_variables(monkeypatch, **{name: value})

    assert found.startswith(f"MAHAVISHNU_{name}: {problem}")
    assert "hunter2" not in found
    with pytest.raises(ValidationError) as refused:
        MahavishnuSettings()
    assert found in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("false", False), ("1", True), ("0", False), ("FALSE", False)]
)
def test_booleans_in_the_environment(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    """As it is usually written."""
    monkeypatch.setenv("MAHAVISHNU_DLQ_ENABLED", text)

    assert MahavishnuSettings().dlq_enabled is value


def test_sections_maps_and_lists_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections and maps by `__` or as JSON, lists as JSON or with commas, rules as JSON or a path."""
    found = of_variables(
        monkeypatch,
        CIRCUIT='{"failure_threshold": 4}',
        CIRCUIT__COOLOFF_SECONDS="5",
        DLQ_CATEGORY_MAX_RETRIES__NETWORK="6",
        DLQ_STORE_HEADERS='{"X-Key": "k"}',
        REDACT_KEYS=" *token*, secret ,",
        DISABLED_PLUGINS='["a,b"]',
        CLASSIFIER_RULES='[{"then": "transient"}]',
        DLQ_STORE_PASSWORD="{not json",
    )
    settings = MahavishnuSettings()

    assert found == ()
    assert (settings.circuit.failure_threshold, settings.circuit.cooloff_seconds) == (4, 5)
    assert settings.dlq_category_max_retries == {"network": 6}
    assert settings.redact_keys == ("*token*", "secret")
    assert settings.disabled_plugins == ("a,b",)
    assert settings.classifier_rules == ({"then": "transient"},)
    assert settings.store_arguments()["password"] == "{not json"
    assert settings.store_arguments()["headers"] == {"X-Key": "k"}
    monkeypatch.setenv("MAHAVISHNU_CLASSIFIER_RULES", "rules.yaml")
    assert MahavishnuSettings().classifier_rules == "rules.yaml"


def test_a_setting_given_twice_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which one is meant cannot be known: by a section and its key, or in two spellings."""
    assert of_variables(monkeypatch, CIRCUIT='{"cooloff_seconds": 3}', CIRCUIT__COOLOFF_SECONDS="4") == (
        "MAHAVISHNU_CIRCUIT__COOLOFF_SECONDS: circuit.cooloff_seconds is already set by MAHAVISHNU_CIRCUIT",
    )
    monkeypatch.delenv("MAHAVISHNU_CIRCUIT")
    monkeypatch.setenv("mahavishnu_circuit__cooloff_seconds", "5")
    (found,) = of_variables(monkeypatch)
    assert found.endswith(" is already set by MAHAVISHNU_CIRCUIT__COOLOFF_SECONDS")
    monkeypatch.delenv("MAHAVISHNU_CIRCUIT__COOLOFF_SECONDS")
    assert MahavishnuSettings().circuit.cooloff_seconds == 5


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose files write `X: ${X:-}` for what is not set."""
    assert of_variables(monkeypatch, DLQ_MAX_SIZE="", DLQ_STORE_URL="", CIRCUIT="", SETTINGS="") == ()


def test_variables_that_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes describes every service to every container, one called mahavishnu-dlq too."""
    foreign = {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "80",
        "SERVICE_PORT_HTTP": "80",
        "PORT": "tcp://10.0.0.1:80",
        "PORT_80_TCP": "tcp://10.0.0.1:80",
        "PORT_80_TCP_ADDR": "10.0.0.1",
        "DLQ_SERVICE_HOST": "10.0.0.1",
        "DLQ_PORT_9200_TCP_PROTO": "tcp",
        "OPENSEARCH_CACHE": "/tmp/jars",
        "TEST_ANYTHING": "1",
    }

    assert of_variables(monkeypatch, **foreign) == ()
    assert of_variables(monkeypatch, OPENSEARCH_URL="x")[0].startswith("MAHAVISHNU_OPENSEARCH_URL: unknown setting")
