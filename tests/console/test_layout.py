"""Line breaks that lay a template out do not become spaces on the page; spaces between words stay."""

from __future__ import annotations

import jinja2
import pytest

from mahavishnu.console.layout import Layout

ENVIRONMENT = jinja2.Environment(extensions=[Layout])


@pytest.mark.parametrize(
    ("template", "page"),
    [
        ("<p>\n  one\n  two\n</p>\n", "<p>one two</p>"),
        ("<p>\n  one\n  <b>two</b>\n  three\n</p>", "<p>one <b>two</b> three</p>"),
        ("<p>\n  one <b>two</b>, three\n</p>", "<p>one <b>two</b>, three</p>"),
        ("<a>\n  one\n</a>\n<a>\n  two\n</a>", "<a>one</a><a>two</a>"),
        ("<a>one</a> <a>two</a>", "<a>one</a> <a>two</a>"),
        ('<a>one</a>{{ " " }}\n<a>two</a>', "<a>one</a> <a>two</a>"),
        ("{{ x }}\n{{ x }}", "1 1"),
        ("{{ x }}\n<b>two</b>", "1<b>two</b>"),
        ("{{ x }}\nof\n{{ x }}", "1 of 1"),
        ("{{ x }}{% if x %}\n  , two\n{% else %}\n  none\n{% endif %}.", "1, two."),
        ("{% for y in (1, 2) %}\n  {{ y }}\n{% endfor %}\n<b>x</b>", "12<b>x</b>"),
        ('<input\n  name="a\nb"\n  {% if x %}checked{% endif %}\n>\n<br>\n', '<input name="a\nb" checked><br>'),
        ('<use\n  href="#{{ x }}"\n/>\n<b\n>x</b\n>', '<use href="#1"/><b>x</b>'),
        ("one\n{# said aside #}\n<b>two</b>", "one <b>two</b>"),
        ("{{ text }}", "a\nb"),
    ],
)
def test_a_line_break_is_a_space_only_beside_words(template: str, page: str) -> None:
    assert ENVIRONMENT.from_string(template).render(x=1, text="a\nb") == page
