"""Which role people have whom others have recognised: a proxy, or a provider of OpenID Connect. Names count exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mahavishnu.api.auth import ANONYMOUS, Actor, Limit
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.permissions import ROLE_PERMISSIONS

MOST_NAME_CHARACTERS = 200
_ROLES = tuple(ROLE_PERMISSIONS)  # the least first


@dataclass(frozen=True)
class RoleMap:
    """Roles by name and by group; who has several has the greatest, and who has none is nobody.

    >>> roles = RoleMap({"ann": "viewer"}, {"on-call": "operator"})
    >>> roles.role_of("ann", ["on-call"]), roles.role_of("Ann", ["on-call-team"])
    ('operator', None)
    """

    users: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    source: str = ""  #: who recognises them: what another one has said counts no more

    def __post_init__(self) -> None:
        if unknown := {*self.users.values(), *self.groups.values()} - {*_ROLES}:
            raise InvalidInput(f"there is no role {', '.join(sorted(unknown))}; there are {', '.join(_ROLES)}")

    @property
    def is_empty(self) -> bool:
        """Whether nobody has a role by it."""
        return not (self.users or self.groups)

    def role_of(self, name: str, groups: Iterable[str] = ()) -> str | None:
        """The role; None for somebody who has none."""
        found = [self.groups[each] for each in groups if each in self.groups]
        if name in self.users:
            found.append(self.users[name])
        return max(found, key=_ROLES.index, default=None)

    def actor(self, name: str, groups: Iterable[str] = ()) -> Actor | None:
        """Who that is, within their limits; None for somebody without a role, and for what is no name."""
        role = self.role_of(name, groups)
        if role is None or name == ANONYMOUS or not name.isprintable() or not 0 < len(name) <= MOST_NAME_CHARACTERS:
            return None
        return Actor.of(self.limits.get(name, Limit()).principal(name, role))
