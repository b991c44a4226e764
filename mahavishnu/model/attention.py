"""Which groups need a person, and which of them first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mahavishnu.model.group import GroupState, GroupView, growth


class Attention(StrEnum):
    """Whether somebody has to look at a group now."""

    NEEDED = "needed"  #: letters wait for a person, or it grows, or is back; and nobody has taken it
    GIVEN = "given"  #: somebody has taken it, or said how far they are
    BY_ITSELF = "by_itself"  #: its letters are retried by themselves
    NONE = "none"  #: on hold, closed, or without open letters


_ORDER = {each: place for place, each in enumerate(Attention)}


@dataclass(frozen=True, slots=True)
class Need:
    """A group, and whether somebody has to look at it; `weight` ranks those that need the same."""

    view: GroupView
    attention: Attention
    weight: float


def attention_of(view: GroupView) -> Attention:
    """Whether somebody has to look at this group now."""
    if view.on_hold or view.group.is_closed or not view.count:
        return Attention.NONE
    if view.owner is not None or view.state is not GroupState.NEW:
        return Attention.GIVEN
    return Attention.NEEDED if view.for_people or view.growing or view.regression else Attention.BY_ITSELF


def rank_needs(views: Iterable[GroupView], now: datetime) -> Sequence[Need]:
    """The groups that are not done with, those first that nobody has taken; then by age × growth × count."""
    needs = [Need(view, attention_of(view), _weight(view, now)) for view in views]
    open_ones = [need for need in needs if need.attention is not Attention.NONE]
    return sorted(open_ones, key=lambda need: (_ORDER[need.attention], -need.weight, need.view.fingerprint))


def _weight(view: GroupView, now: datetime) -> float:
    begun = view.first_seen or now
    hours = max(1.0, (now - begun).total_seconds() / 3600)
    return min(hours, 24.0) * (1.0 + max(0.0, growth(view.last_hour, view.last_day))) * view.count
