"""The page of the audit."""

from __future__ import annotations

from tests.support.api import ApiHarness
from tests.support.pages import EVIL, read, require_inert


async def test_nobody_has_done_anything(api: ApiHarness) -> None:
    assert "Nobody has done anything yet" in await read(api, "/audit")
    assert "No such act" in await read(api, "/audit?actor=ann")


async def test_acts_are_found_by_what_the_address_says(api: ApiHarness) -> None:
    for name in ("a", "b/c/d"):
        await api.keep(name)
        await api.dlq.letters.resolve(name, by="ann", notes=f"fixed {name}")
    await api.keep("z")
    await api.dlq.letters.resolve("z", by="bo")
    shown = await read(api, "/audit?actor=ann&action=&subject=&outcome=done&since=&until=")
    assert "“fixed a”" in shown and "“fixed b/c/d”" in shown and "bo</a>" not in shown
    assert 'href="letters/a"' in shown and 'href="letters/b%2Fc%2Fd"' in shown
    assert "mahavishnu audit list --actor ann --outcome done" in shown
    assert "No such act" in await read(api, "/audit?until=2020-01-01")
    await read(api, "/audit?since=soon", status=422)


async def test_pages_go_on(api: ApiHarness) -> None:
    for name in "abc":
        await api.keep(name)
        await api.dlq.letters.resolve(name, by="ann")
    first = await read(api, "/audit?limit=2&actor=ann")
    path = first.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert path.startswith("audit?actor=ann") and "Older acts" in first
    assert (await read(api, f"/{path}")).count("<tr role") == 2


async def test_what_was_refused_stands_there_and_viewers_may_look(guarded_api: ApiHarness) -> None:
    await guarded_api.keep("a")
    await guarded_api.client.post(
        "/api/v1/dlq/a/resolve", headers={"Authorization": "Bearer look-1"}, json={}
    )  # by a viewer
    shown = await read(guarded_api, "/audit", "viewer")
    assert "Refused" in shown and "vic" in shown


async def test_what_strangers_wrote_is_text(api: ApiHarness) -> None:
    await api.keep("a")
    await api.dlq.letters.edit("a", patch={EVIL: EVIL}, create=True, by=EVIL, notes=EVIL)
    require_inert(await read(api, "/audit"))
