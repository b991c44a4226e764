"""Against a server with TLS, users and roles: what is wrong with the configuration is said at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahavishnu.model.errors import ItemFailed, StoreError, StoreMisconfigured
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import letter_query
from mahavishnu.stores.base import Store, get_one, write_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import ManualClock, make_letter
from tests.support.opensearch import Cluster, until

pytestmark = pytest.mark.opensearch
PASSWORD = "Quiet-Harbour-41"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(secure=True) as cluster:
        cluster.add_user("worker", PASSWORD, {"mahavishnu*": ["indices_all"]})
        cluster.add_user("reader", PASSWORD, {"mahavishnu*": ["read"]})
        # May write and read, but not delete.
        writes = [
            "indices:data/write/index",
            "indices:data/write/bulk*",
            "indices:admin/*",
            "read",
            "indices:monitor/*",
        ]
        cluster.add_user("keeper", PASSWORD, {"mahavishnu*": writes})
        yield cluster


def store(cluster: Cluster, user: str = "worker", password: str = PASSWORD, **more: object) -> OpenSearchStore:
    options = {"ca": cluster.ca, "timeout": 20, **more}
    return OpenSearchStore(cluster.urls, user=user, password=password, **options)  # type: ignore[arg-type]


async def test_the_right_authority_and_password_work(cluster: Cluster) -> None:
    async with store(cluster) as secure:
        collection = secure.collection(LETTERS)
        assert await write_one(collection, make_letter(task_id="a")) is not None
        assert (await collection.find(letter_query())).items
        assert (await collection.tally(letter_query())).total.count
        assert (await secure.health()).status in ("ok", "degraded")


async def test_so_does_a_url_with_the_credentials_beside_it(cluster: Cluster) -> None:
    address = cluster.urls[0].removeprefix("https://")
    url = f"opensearchs://{address}/mahavishnu?ca={cluster.ca}"
    async with open_store(url, user="worker", password=PASSWORD) as secure:
        assert await write_one(secure.collection(LETTERS), make_letter(task_id="by-url")) is not None
        assert PASSWORD not in repr(secure)


def wrong_password(cluster: Cluster) -> Store:
    return store(cluster, password="not-the-password")


def missing_authority(cluster: Cluster) -> Store:
    return store(cluster, ca=None)


def missing_file(cluster: Cluster) -> Store:
    return store(cluster, ca=Path("nowhere.pem"))


def forbidden_index(cluster: Cluster) -> Store:
    return store(cluster, prefix="elsewhere")


@pytest.mark.parametrize("wrong", [wrong_password, missing_authority, missing_file, forbidden_index])
@pytest.mark.parametrize("with_fallback", [False, True])
async def test_a_wrong_configuration_is_said_at_once_and_is_no_outage(
    cluster: Cluster, wrong: object, with_fallback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broken: Store = wrong(cluster)  # type: ignore[operator]
    if with_fallback:
        broken = FallbackStore(broken, MemoryStore())
    with pytest.raises(StoreMisconfigured) as problem:
        await broken.open()
    assert PASSWORD not in str(problem.value) + repr(broken) + caplog.text
    assert "not-the-password" not in str(problem.value) + repr(broken) + caplog.text
    await broken.close()


async def change_password(cluster: Cluster, old: str, new: str) -> None:
    """Return when the server has forgotten the old one."""
    cluster.add_user("changing", new, {"mahavishnu*": ["indices_all"]})

    def forgotten() -> bool:
        return cluster.request("GET", "/_cluster/health", user=("changing", old))[0] == 401

    await asyncio.to_thread(until, forgotten, 30, "the new password")


async def test_a_password_that_is_changed_later_hides_nothing_and_loses_nothing(cluster: Cluster) -> None:
    cluster.add_user("changing", PASSWORD, {"mahavishnu*": ["indices_all"]})
    clock = ManualClock()  # the watch does not look after the primary before the test does
    async with FallbackStore(store(cluster, "changing"), MemoryStore(), clock=clock) as pair:
        collection = pair.collection(LETTERS)
        await pair.drain()
        await change_password(cluster, PASSWORD, "Another-Harbour-42")
        assert await write_one(collection, make_letter(task_id="kept")) is not None
        with pytest.raises(StoreMisconfigured):
            await collection.find(letter_query())
        assert (await pair.health()).waiting == 1
        await change_password(cluster, "Another-Harbour-42", PASSWORD)
        await pair.drain()
        assert (await pair.health()).waiting == 0
        assert await get_one(collection, "kept") is not None


async def test_a_reader_may_read_and_each_write_fails_by_itself(cluster: Cluster) -> None:
    async with store(cluster) as secure:
        await secure.collection(LETTERS).write([make_letter(task_id="there")])
    async with store(cluster, "reader") as reading:
        collection = reading.collection(LETTERS)
        assert (await collection.find(letter_query())).items
        with pytest.raises(StoreError) as problem:
            await write_one(collection, make_letter(task_id="not-allowed"))
        assert isinstance(problem.value, ItemFailed | StoreMisconfigured)


async def test_a_bulk_with_one_forbidden_item_fails_that_item_only(cluster: Cluster) -> None:
    async with store(cluster, "keeper") as keeping:
        collection = keeping.collection(LETTERS)
        kept = await write_one(collection, make_letter(task_id="kept-for-good"))
        assert kept is not None
        new = [make_letter(task_id=f"beside-{number}") for number in range(5)]
        written, removed = await asyncio.gather(collection.write(new), collection.remove([kept]))
        assert all(isinstance(result, DeadLetter) for result in written)
        assert isinstance(removed[0], ItemFailed)
        assert "kept-for-good" in str(removed[0])
