"""Finding the task id under which a letter can live, where letters of other work may have its own."""

from __future__ import annotations

from mahavishnu.model.errors import StoreError, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.work import choose_place, places_of
from mahavishnu.stores.base import Collection


async def find_place(
    letters: Collection[DeadLetter], letter: DeadLetter, *, is_new: bool = False
) -> tuple[DeadLetter, DeadLetter | None]:
    """The letter under the task id that it goes under, and what lives there: None if nothing does. Raises StoreError.

    While the primary store is away nobody knows what is under an id that the local one does not have. For a letter that
    is new, so that it is nowhere yet, such an id passes for free: it is created there only if it is.
    """
    places = places_of(letter)
    found: list[DeadLetter | None] = []
    for place, there in enumerate(await letters.get([each.key for each in places])):
        if isinstance(there, StoreError) and not (is_new and place and isinstance(there, StoreUnavailable)):
            raise there
        found.append(there if isinstance(there, DeadLetter) else None)
    chosen = choose_place(letter, found)
    return places[chosen], found[chosen]
