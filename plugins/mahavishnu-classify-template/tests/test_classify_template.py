"""A classifier is a function: call it. And see once that the chain takes it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import mahavishnu_classify_template as plugin

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins


def test_a_declined_card_is_for_the_customer_to_settle() -> None:
    verdict = plugin.classify_error(RuntimeError("the card was declined"))
    assert verdict is not None
    assert verdict.category == "validation" and "another card" in verdict.reason


def test_it_has_no_opinion_on_anything_else() -> None:
    assert plugin.classify_error(RuntimeError("connection refused")) is None


def test_the_chain_asks_it_before_the_built_in_rules() -> None:
    plugins = Plugins()
    plugins.register(plugin, "template")
    assert Chain(plugins).classify("card was declined: HTTP 503").author == "template"
    assert Chain(plugins).classify("HTTP 503").author == "built-in"


def test_it_is_found_by_its_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["mahavishnu"] == {"template": plugin.__name__}
