"""Templates are formatted by `make fix`, and one that is not formatted or too wide fails `make check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import format_templates
from tools.format_templates import ENVIRONMENT, LIMIT, Refusal, formatted

GIVEN = (
    '<ul class="lines">{% for each in view %}<li><a href="{{ each.path }}" {% if each.is_here %}'
    'aria-current="page"{% endif %} title="A title that takes so much room that the line is too long">{{ each.name }}'
    "</a>, {{ each.count }} of {{ view | length }}</li>{% else %}<li>none</li>{% endfor %}</ul>\n"
)
WANTED = """\
<ul class="lines">
  {% for each in view %}
    <li>
      <a
        href="{{ each.path }}"
        {% if each.is_here %}aria-current="page"{% endif %}
        title="A title that takes so much room that the line is too long"
      >
        {{ each.name }}
      </a>,
      {{ each.count }} of {{ view | length }}
    </li>
  {% else %}
    <li>none</li>
  {% endfor %}
</ul>
"""


def test_an_element_and_an_attribute_that_does_not_fit_stand_on_a_line_each() -> None:
    assert formatted(GIVEN) == WANTED
    assert formatted(WANTED) == WANTED


def test_what_a_template_says_stays_the_same() -> None:
    view = [{"path": "/a", "is_here": True, "name": "A", "count": 1}]
    pages = [ENVIRONMENT.from_string(source).render(view=view) for source in (GIVEN, WANTED)]
    assert pages[0] == pages[1]
    assert ">A</a>, 1 of 1</li>" in pages[1]


def test_arguments_that_do_not_fit_stand_on_a_line_each() -> None:
    call = "{{ " + f'field("{"a" * 50}", "{"b" * 50}", [("c", 1), ("d", 2)], value=none)' + " }}\n"
    assert formatted(call).splitlines()[-3:] == ['  [("c", 1), ("d", 2)],', "  value=none", ") }}"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("<div><p>a</div>", "</div> closes nothing"),
        ("{% if a %}<div>{% endif %}</div>", "{% endif %} closes nothing"),
        ("<div>", "<div> is not closed"),
        ("<pre>a\nb</pre>", "a line break in <pre>"),
        ("<b>a</b>  <b>b</b>", "would change what it says"),
    ],
)
def test_a_template_that_cannot_be_formatted_is_refused(source: str, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        formatted(source)


def test_a_line_that_is_too_long_is_refused() -> None:
    line = '<p title="{}">'
    fits = line.format("x" * (LIMIT - len('  title=""')))
    assert max(map(len, formatted(f"{fits}</p>").splitlines())) == LIMIT
    with pytest.raises(Refusal, match=f"line 2 has {LIMIT + 1} characters"):
        formatted(fits.replace("x", "xx", 1) + "</p>")


def test_the_check_refuses_what_it_would_change_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(format_templates, "ROOT", tmp_path)
    room = tmp_path / "mahavishnu" / "letters" / "templates"
    room.mkdir(parents=True)
    page = room / "page.html"
    page.write_text(GIVEN, encoding="utf-8")

    assert format_templates.main(["--check"]) == 1
    assert "mahavishnu/letters/templates/page.html: not formatted" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == GIVEN

    assert format_templates.main([]) == 0
    assert page.read_text(encoding="utf-8") == WANTED
    assert format_templates.main(["--check"]) == 0

    page.write_text(f"<p>{'x' * (LIMIT + 1)}</p>\n", encoding="utf-8")
    assert format_templates.main(["--check"]) == 1
    assert f"more than {LIMIT}" in capsys.readouterr().err


def test_the_templates_of_the_console_are_formatted() -> None:
    assert list((format_templates.ROOT / "mahavishnu").glob("**/templates/**/*.html"))
    assert format_templates.main(["--check"]) == 0
