"""A store from a URL, and URLs that people may see."""

from __future__ import annotations

import pytest

from mahavishnu.model.errors import InvalidInput, StoreUnavailable
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.stores.urls import mask, open_store

SECRETS = [
    "opensearch://ann:{}@host:9200",
    "opensearch://ann:se/{}@host",
    "opensearch://ann:se#{}@host",
    "opensearch://ann:se?{}@host",
    "opensearch:ann:{}@host",
    "opensearch://host?password={}",
    "opensearch://host?timeout={}",
    "opensearch://host?verify={}",
    "memory://ann:{}@x",
    "sqlite://ann:{}@x",
    "redis://ann:{}@x",
    "http://{}:x@host/hook",
    "https://{}@host/hook",
    "https://ann:se/{}@host/hook",
    "https://ann:se?{}@host/hook",
    "https://host/hook?{}",
    "https://host/hook?a@{}",
    "https://host/hook?token={}&b=c#d",
]


@pytest.mark.parametrize("url", SECRETS)
def test_no_message_and_no_mask_shows_a_secret(url: str) -> None:
    given = url.format("s3cret")
    assert "s3cret" not in mask(given)
    try:
        store = open_store(given)
    except InvalidInput as problem:
        assert "s3cret" not in str(problem)
    else:
        assert "s3cret" not in repr(store)


def test_a_mask_keeps_what_is_no_secret() -> None:
    assert mask("opensearchs://ann:pw@host:9200/x?ca=/etc/ca.pem") == "opensearchs://ann:***@host:9200/x?ca=***"
    assert mask("sqlite:///letters.db") == "sqlite:///letters.db"
    assert mask("memory:") == "memory:"
    assert mask("https://host/hook?token=x") == "https://host/hook?***"
    assert mask("https://host/hook") == "https://host/hook"


def test_each_kind_of_store() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)
    assert isinstance(open_store("sqlite:///letters.db"), SQLiteStore)
    pair = open_store("opensearch://one:9200,two:9200/mine", local="sqlite:////tmp/local.db", user="ann", password="x")
    assert isinstance(pair, FallbackStore)
    assert isinstance(pair.primary, OpenSearchStore)
    assert repr(pair.primary) == "OpenSearchStore('http://one:9200', 'http://two:9200', prefix='mine')"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("opensearch://host?timout=3", "did you mean 'timeout'"),
        ("opensearch://host?nonsense=3", "known are"),
        ("opensearch://", "names no host"),
        *(
            (f"opensearch://host?timeout={wrong}", "no usable value for 'timeout'")
            for wrong in ("soon", "nan", "0", "-1", "inf", "")
        ),
        ("opensearch://host?verify=perhaps", "no usable value for 'verify'"),
        ("sqlite://letters.db", "sqlite:///relative.db"),
        ("sqlite:///", "names no file"),
        ("sqlite:///~nobody-has-this-name/x.db", "home directory that there is not"),
        ("/var/x.db", "not a path: write sqlite:////var/x.db"),
        ("letters", "a URL is needed: memory:"),
        ("opensearch://host:port", "the address cannot be read"),
        ("memory:x", "did you mean 'memory:'"),
        ("redis://host", "no kind of store"),
    ],
)
def test_what_is_wrong_is_said(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        open_store(url)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_that_would_never_or_always_be_over_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidInput, match="timeout"):
        OpenSearchStore("http://host:9200", timeout=timeout)


@pytest.mark.parametrize("url", ["opensearch://[::1]:9", "opensearch://u:p@[::1]:9/x"])
async def test_an_address_of_version_6_is_one_that_can_be_asked(url: str) -> None:
    """Nothing listens there: that is said, and no part of the address is taken for the port."""
    with pytest.raises(StoreUnavailable, match=r"OpenSearch at http://\[::1\]:9 cannot be reached"):
        await open_store(url, timeout=1).open()
