"""Access to a server, by the settings."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.access.oidc import ProviderRules
    from mahavishnu.http.auth import Access, Limit
    from mahavishnu.settings.sections import LimitSettings
    from mahavishnu.settings.settings import MahavishnuSettings


def access_of(settings: MahavishnuSettings) -> Access:
    """Return the permissions of the settings. Raises InvalidInput."""
    from mahavishnu.http.auth import Access
    from mahavishnu.http.proxies import Proxies, RoleMap

    def plain(tokens: Any) -> dict[str, str]:
        return {name: secret.get_secret_value() for name, secret in tokens.items()}

    people = settings.server
    limits = {name: limit_of(each) for name, each in people.limits.items()}
    proxy, oidc = people.proxy, people.oidc
    by_proxy = RoleMap(proxy.users, proxy.groups, limits)
    provider_roles = RoleMap(groups=oidc.groups, limits=limits, source=oidc.issuer) if oidc.issuer else None
    if provider_roles is not None and provider_roles.is_empty:
        raise InvalidInput("server.oidc.groups is empty, so nobody could log in there: name groups and their roles")
    return Access.of(
        plain(people.viewers),
        plain(people.operators),
        plain(people.admins),
        limits,
        proxies=Proxies.of(proxy.addresses, by_proxy, proxy.user_header, proxy.groups_header),
        provider_roles=provider_roles,
    )


def provider_of(settings: MahavishnuSettings) -> ProviderRules | None:
    """Return the provider at which people log in; None without one. Raises InvalidInput."""
    from mahavishnu.access.oidc import ProviderRules

    oidc = settings.server.oidc
    if not oidc.issuer:
        return None
    return ProviderRules(
        oidc.issuer,
        oidc.client_id,
        oidc.client_secret.get_secret_value() if oidc.client_secret else "",
        oidc.console_url,
        oidc.scopes,
        oidc.name_claim,
        oidc.group_claim,
        timedelta(minutes=oidc.recheck_minutes),
    )


def limit_of(given: LimitSettings) -> Limit:
    """Return a person's limits in the settings; an omitted one does not limit."""
    from mahavishnu.http.auth import Limit
    from mahavishnu.model.permissions import Scope

    def these(values: Iterable[Any] | None) -> frozenset[Any] | None:
        return None if values is None else frozenset(values)

    return Limit(these(given.permissions), Scope(these(given.namespaces), these(given.queues), these(given.adapters)))
