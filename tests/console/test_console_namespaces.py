"""Other namespaces in the console: the way to them, and that a page and its forms are about one."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.console.test_forms import field, post
from tests.support.api import ApiHarness
from tests.support.pages import HTML, read


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
        "/ns/%2E%2E/groups",
    ],
)
async def test_what_names_no_namespace_is_no_page(api: ApiHarness, path: str) -> None:
    assert (await api.client.get(path, headers=HTML)).status_code == 404


async def test_the_login_leads_back_into_the_namespace(guarded_api: ApiHarness) -> None:
    led = await guarded_api.client.get("/ns/eu/groups?sort=count", headers=HTML)
    assert (led.status_code, led.headers["location"]) == (303, "./login?next=%2Fgroups%3Fsort%3Dcount")


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ("/letters/order-1?namespace=eu", "../ns/eu/letters/order-1"),
        ("/?namespace=eu", "./ns/eu/"),
        ("/letters/a%2Fb?queue=mail&namespace=eu", "../ns/eu/letters/a%2Fb?queue=mail"),
        ("/letters?namespace=default&q=%C3%BC+x", "./letters?q=%C3%BC+x"),
        ("/ns/eu/letters?namespace=us", "../../ns/us/letters"),
        ("/ns/eu/groups/v1:1?namespace=default", "../../../groups/v1:1"),
        ("//evil.example/x?namespace=default", "../..//evil.example/x"),
    ],
)
async def test_a_page_of_another_namespace_is_led_to_where_its_forms_act_on_it(
    api: ApiHarness, asked: str, place: str
) -> None:
    """As the links of alerts ask for it."""
    led = await api.client.get(f"http://localhost{asked}", headers=HTML)
    assert (led.status_code, led.headers["location"]) == (303, place)
    assert led.url.join(led.headers["location"]).host == "localhost"


async def test_every_form_acts_in_the_namespace_that_its_page_shows(api: ApiHarness) -> None:
    await fill(api)
    (group,) = (await api.dlq.in_namespace("eu").groups.list()).items
    for path in (f"/groups/{group.fingerprint}", "/letters/order-1"):
        page = await read_led(api, f"{path}?namespace=eu")
        acts = {f"{page.url.join(place).path}/" for place in re.findall(r'method="post" action="([^"]+)"', page.text)}
        assert len(acts) > 1 and all(each.startswith("/ns/eu/") for each in acts), acts


async def test_a_letter_whose_namespace_no_address_can_name_is_changed_there(api: ApiHarness) -> None:
    for name in ("default", "a b"):
        await api.dlq.in_namespace(name).enqueue("order-1", {"currency": name}, [], ValueError(name), "never", 0)
    listed = await read(api, "/letters?q=namespace:*")
    assert 'href="letters/order-1?namespace=a+b"' in listed and 'href="letters/order-1"' in listed
    page = await read(api, "/letters/order-1?namespace=a+b")
    assert 'action="../letters/order-1/resolve?namespace=a+b"' in page.replace("formaction", "action")
    done = await post(api, "/letters/order-1/resolve?namespace=a+b")
    assert (done.status_code, done.headers["location"]) == (303, "../../letters/order-1?namespace=a+b")
    here, there = await api.dlq.get_task("order-1"), await api.dlq.in_namespace("a b").get_task("order-1")
    assert here is not None and here.is_open and there is not None and not there.is_open


async def test_other_pages_of_such_a_namespace_say_where_it_is_looked_at(api: ApiHarness) -> None:
    await fill(api)
    (group,) = (await api.dlq.groups.list()).items
    for path in (f"/groups/{group.fingerprint}", "/queues", "/workers", "/runs/r", "/tasks/t"):
        for name in ("a%20b", "*", ".."):
            page = await read(api, f"{path}?namespace={name}", status=422)
            assert "address of a page can name the namespace" in page and "--namespace" in page


async def test_lists_of_all_namespaces_lead_to_each_thing_in_its_own(api: ApiHarness) -> None:
    await fill(api)
    groups = await read(api, "/groups?namespace=*")
    assert len(re.findall(r'href="groups/[^"?]+\?namespace=eu"', groups)) == 1
    assert len(re.findall(r'href="groups/[^"?]+"', groups)) == 1
    await api.dlq.in_namespace("eu").runs.start("resolve", everything=True, by="ann")
    assert re.search(r'href="runs/[^"?]+\?namespace=eu"', await read(api, "/runs?namespace=*"))


async def test_a_run_for_letters_of_another_namespace_is_shown_there(api: ApiHarness) -> None:
    await fill(api)
    begun = await post(api, "/selection", verb="resolve", q="namespace:eu", matched="1")
    assert begun.status_code == 303
    shown = await read_led(api, str(begun.url.join(begun.headers["location"])))
    (run,) = (await api.dlq.in_namespace("eu").runs.list()).items
    assert shown.url.path == f"/ns/eu/runs/{run.run_id}" and "Resolve of 1 letter has begun." in shown.text


async def read_led(api: ApiHarness, path: str) -> httpx.Response:
    """The page to which a path leads."""
    shown = await api.client.get(path, headers=HTML, follow_redirects=True)
    assert shown.status_code == 200, shown.text
    return shown
