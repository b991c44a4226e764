"""Each method of an actor's view of the queue asks for its permission, and keeps to the scope; six principals try."""

from __future__ import annotations

import pytest

from tests.support.permission_matrix import METHODS, PRINCIPALS, World, call, expect, make_world, methods

_world: list[World] = []


@pytest.fixture
async def world() -> World:
    """Everything that there is; each call gets a copy."""
    if not _world:
        _world.append(await make_world())
    return _world[0]


def test_every_method_is_declared() -> None:
    """A new method fails here, until METHODS says which permission it needs."""
    assert set(methods()) == set(METHODS)


@pytest.mark.parametrize("method", METHODS)
async def test_a_method_does_what_the_matrix_says(world: World, method: str) -> None:
    row, wrong = METHODS[method], []
    for name, who in PRINCIPALS.items():
        for inside in (True, False):
            outcome, problems = await call(world, name, row, inside=inside)
            if outcome not in (expected := expect(row, who, inside=inside)):
                problems.append(f"is {outcome}, not {' or '.join(sorted(expected))}")
            wrong += [f"{name}, {'inside' if inside else 'outside'}: {problem}" for problem in problems]
    assert not wrong, "\n".join(wrong)
