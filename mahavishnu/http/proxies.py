"""Proxies in front of the server: their headers about the client and the user count only from their addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from msgspec import field
from starlette.datastructures import Headers

from mahavishnu.http.auth import ANONYMOUS, Actor, Limit
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.permissions import ROLE_PERMISSIONS
from mahavishnu.model.record import Value

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
MOST_NAME_CHARACTERS = 200
_MOST_GROUP_CHARACTERS = 10_000
_ROLES = tuple(ROLE_PERMISSIONS)  # the least first


class RoleMap(Value, frozen=True):
    """Roles by exact name and by group, of users whom a proxy or OpenID Connect recognised; the greatest counts.

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
        """True if it gives no role to anyone."""
        return not (self.users or self.groups)

    def role_of(self, name: str, groups: Iterable[str] = ()) -> str | None:
        """Return the role; None for a user without one."""
        found = [self.groups[each] for each in groups if each in self.groups]
        if name in self.users:
            found.append(self.users[name])
        return max(found, key=_ROLES.index, default=None)

    def actor(self, name: str, groups: Iterable[str] = ()) -> Actor | None:
        """Return the user as an actor, within their limits; None without a role or with an invalid name."""
        role = self.role_of(name, groups)
        if role is None or name == ANONYMOUS or not name.isprintable() or not 0 < len(name) <= MOST_NAME_CHARACTERS:
            return None
        return Actor.of(self.limits.get(name, Limit()).principal(name, role))


class AmbiguousUser(Exception):
    """A proxy named the user in an unreliable way."""


class Proxies(Value, frozen=True):
    """Addresses of proxies, and what they may say: the client's address and, with `roles`, the user."""

    networks: tuple[Network, ...] = ()
    user_header: str = "X-Remote-User"
    groups_header: str | None = None
    roles: RoleMap = field(default_factory=RoleMap)

    @classmethod
    def of(
        cls,
        addresses: Iterable[str],
        roles: RoleMap,
        user_header: str = "X-Remote-User",
        groups_header: str | None = None,
    ) -> Proxies:
        """Read addresses and networks. Raises InvalidInput for invalid ones, and for what would let anyone in.

        >>> Proxies.of(["127.0.0.1", "10.1.0.0/16", "::1"], RoleMap()).include("10.1.2.3")
        True
        """
        networks = tuple(map(_network, addresses))
        if not roles.is_empty and not networks:
            raise InvalidInput("server.proxy has users or groups and no addresses: name the proxies that are believed")
        if roles.groups and groups_header is None:
            raise InvalidInput("server.proxy.groups needs server.proxy.groups_header, which the proxy must set itself")
        return cls(networks, user_header, groups_header, roles)

    def include(self, host: str) -> bool:
        """Return True if a peer with this address is one of the proxies."""
        address = _address(host)
        return address is not None and any(address in network for network in self.networks)

    def client_of(self, peer: str, headers: Headers) -> str:
        """Return the client's address: behind proxies, the last one in X-Forwarded-For that is no proxy itself.

        >>> proxies = Proxies.of(["::1"], RoleMap())
        >>> proxies.client_of("::1", Headers({"x-forwarded-for": "9.9.9.9, 192.0.2.7"}))
        '192.0.2.7'
        >>> proxies.client_of("192.0.2.8", Headers({"x-forwarded-for": "9.9.9.9"}))
        '192.0.2.8'
        """
        if not self.include(peer):
            return peer
        named = [each.strip() for line in headers.getlist("x-forwarded-for") for each in line.split(",")]
        for each in reversed(named):
            if _address(each) is None:  # nobody can tell what is before it
                return peer
            if not self.include(each):
                return each
        return peer

    def user_of(self, peer: str, headers: Headers) -> tuple[str, tuple[str, ...]] | None:
        """Return the user and groups that a trusted proxy names, or None. Raises AmbiguousUser for a bad header."""
        if self.roles.is_empty or not self.include(peer):
            return None
        name = _single(headers, self.user_header, MOST_NAME_CHARACTERS)
        if not name:
            return None
        groups = (_single(headers, self.groups_header, _MOST_GROUP_CHARACTERS) or "") if self.groups_header else ""
        return name, tuple(each.strip() for each in groups.split(",") if each.strip())


def _single(headers: Headers, name: str, most: int) -> str | None:
    values = headers.getlist(name)
    if len(values) > 1:
        raise AmbiguousUser(f"the proxy sent {name} {len(values)} times: have it send its own only")
    if not values:
        return None
    try:
        text = values[0].encode("latin-1").decode()  # as headers come; names may have any letters
    except UnicodeError:
        raise AmbiguousUser(f"what the proxy sent as {name} is not UTF-8") from None
    if not text.isprintable() or len(text) > most:
        raise AmbiguousUser(f"what the proxy sent as {name} is too long, or not printable")
    return text


def _network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as problem:
        raise InvalidInput(f"server.proxy.addresses: {problem}; name addresses, or networks as 10.1.0.0/16") from None
    if network.prefixlen == 0:
        raise InvalidInput(f"server.proxy.addresses: {text} is every machine there is; name those of the proxies")
    return network


def _address(text: str) -> Address | None:
    """An address; of IPv4 as such, also where a socket for both shows it as IPv6."""
    try:
        address = ipaddress.ip_address(text.strip().strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
