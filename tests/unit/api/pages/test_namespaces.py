"""Other namespaces in the console: the way to them, and that a page and its forms are about one."""

from __future__ import annotations

import pytest

from tests.unit.api.conftest import ApiHarness
from tests.unit.api.pages.reading import HTML, read
from tests.unit.api.pages.test_acts import field, post


async def fill(api: ApiHarness) -> None:
    """The same letter in two namespaces."""
    for name in ("default", "eu"):
        await api.dlq.in_namespace(name).enqueue("order-1", {"currency": name}, [], ValueError(name), "never", 0)


async def test_the_namespaces_are_listed_with_the_way_to_each(api: ApiHarness) -> None:
    await fill(api)
    await api.dlq.in_namespace("a b").enqueue("x", {}, [], ValueError("x"), "never", 0)
    page = await read(api, "/namespaces")
    assert "3 namespaces" in page and 'href="./ns/eu/"' in page and 'href="./"' in page
    assert "no address can name it" in page
    inside = await read(api, "/ns/eu/namespaces")
    assert 'href="./../../"' in inside and 'href="./../../ns/eu/"' in inside
    assert (await api.get("/query/namespaces")).json() == [
        {"name": "a b", "open": 1, "for_people": 1},
        {"name": "default", "open": 1, "for_people": 1},
        {"name": "eu", "open": 1, "for_people": 1},
    ]


async def test_pages_acts_and_routes_below_a_namespace_are_about_it(api: ApiHarness) -> None:
    await fill(api)
    page = await read(api, "/ns/eu/letters/order-1")
    assert "ValueError: eu" in page and "ValueError: default" not in page and ">eu</a>" in page
    form = {"path": "currency", "value": '"EUR"', "version": field(page, "version"), "act": "edit"}
    done = await post(api, "/ns/eu/letters/order-1/edit", **form)
    assert (done.status_code, done.headers["location"]) == (303, "../../letters/order-1")
    here, there = await api.dlq.get_task("order-1"), await api.dlq.in_namespace("eu").get_task("order-1")
    assert (
        here is not None
        and there is not None
        and (here.task, there.task) == ({"currency": "default"}, {"currency": "EUR"})
    )
    found = (await api.client.get("/ns/eu/api/v1/dlq/order-1")).json()
    assert found["namespace"] == "eu" and found["task"] == {"currency": "EUR"}
    for path in (
        "",
        "groups",
        "letters",
        "runs",
        "queues",
        "tasks",
        "workers",
        "archive",
        "audit",
        "alerts",
        "settings",
    ):
        assert (await api.client.get(f"/ns/eu/{path}", headers=HTML)).status_code == 200, path
    assert "1 group needs somebody" in await read(api, "/ns/eu/")


@pytest.mark.parametrize(
    "path",
    [
        "/ns/",
        "/ns/eu",
        "/ns//groups",
        "/ns/a%2Fb/groups",
        "/ns/eu%2Fgroups",
        "/ns/*/groups",
        "/ns/e%20u/groups",
        "/ns/eu/ns/us/groups",
    ],
)
async def test_what_names_no_namespace_is_no_page(api: ApiHarness, path: str) -> None:
    assert (await api.client.get(path, headers=HTML)).status_code == 404


async def test_the_login_leads_back_into_the_namespace(guarded_api: ApiHarness) -> None:
    led = await guarded_api.client.get("/ns/eu/groups?sort=count", headers=HTML)
    assert (led.status_code, led.headers["location"]) == (303, "./login?next=%2Fgroups%3Fsort%3Dcount")
