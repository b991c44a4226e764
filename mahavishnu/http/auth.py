"""Authentication: a token names a person and a role; without tokens the server answers this machine only."""

from __future__ import annotations

import hashlib
import ipaddress
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from datetime import datetime, timedelta
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar
from urllib.parse import parse_qsl, urlsplit

from msgspec import field
from pydantic import Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request

from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.routing import API, Depends
from mahavishnu.http.schemas import ActionRequest, NamespaceName
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.permissions import ROLE_PERMISSIONS, Permission, Principal, Scope
from mahavishnu.model.record import Value

if TYPE_CHECKING:
    from mahavishnu.http.proxies import Proxies, RoleMap


S = TypeVar("S")
_MOST_FIELDS = 1000  # of one form
_FORM_TYPE = "application/x-www-form-urlencoded"
_HEALTH = ("/healthz", "/readyz", "/metrics")
_MOST_VIEWS = 1000
ANONYMOUS = "api_user"  # the name of every actor where there are no tokens


@lru_cache(32)
def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach `host`.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_from_other_site(headers: Mapping[str, str]) -> bool:
    """Return True if a browser says that a page of another site made it send the request.

    >>> is_from_other_site({"sec-fetch-site": "cross-site"}), is_from_other_site({"sec-fetch-site": "same-origin"})
    (True, False)
    >>> is_from_other_site({"origin": "https://evil.example", "host": "dlq.example"}), is_from_other_site({})
    (True, False)
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and origin.partition("://")[2] != headers.get("host")


def form_value(headers: Mapping[str, str], body: bytes, name: str) -> str:
    """A field of the form that a request sends; empty if it sends none, or not this one."""
    if not headers.get("content-type", "").startswith(_FORM_TYPE):
        return ""
    try:
        fields = dict(parse_qsl(body.decode(), max_num_fields=_MOST_FIELDS))
    except ValueError:
        return ""
    return fields.get(name, "")


def wants_page(scope: MutableMapping[str, Any]) -> bool:
    """Return True if the request is for a page, and not for the API or a probe."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    if path.startswith(f"{API}/") or path in (API, *_HEALTH):
        return False
    headers = Headers(scope=scope)
    return "text/html" in headers.get("accept", "") or headers.get("hx-request") == "true"


class Role(IntEnum):
    """Each role may do what the roles before it may do."""

    NOBODY = 0  #: ask for the health
    VIEWER = 1  #: read
    OPERATOR = 2  #: change letters, groups and runs; work as a worker
    ADMIN = 3  #: delete letters


def audience_of(dlq: LetterQueue, actor: Actor) -> object:
    """Return an equal value for actors whom one answer may serve: they see the same, and no name is needed."""
    options = dlq.context.options
    each = options.may_act is not None or options.audit_payload_reads
    return (actor.sees, actor.name if each else None)


class Actor(Value, frozen=True):
    """Sender of a request. Without a `principal` they may do everything: there are no tokens."""

    name: str
    role: Role
    principal: Principal | None = None

    @property
    def sees(self) -> object:
        """Equal for actors who are shown the same; one who sees a part is also shown their own acts and runs."""
        who = self.principal
        return who and (who.scope, who.sees_payloads, None if who.scope.is_everything else who.name)

    @classmethod
    def of(cls, principal: Principal) -> Actor:
        """Return the actor of a principal; the role is the least one that has a permission like theirs."""
        may = principal.permissions
        if not may.isdisjoint((Permission.DELETE, Permission.CONFIGURE)):
            return cls(principal.name, Role.ADMIN, principal)
        acts = not may.isdisjoint((Permission.RETRY, Permission.EDIT))
        return cls(principal.name, Role.OPERATOR if acts else Role.VIEWER, principal)


NOBODY = Actor("anybody", Role.NOBODY)  # before a login, and without a token


class Limit(Value, frozen=True):
    """Permissions and view of a person with less than their role; None means all."""

    permissions: frozenset[Permission] | None = None
    scope: Scope = field(default_factory=Scope)

    def principal(self, name: str, role: str) -> Principal:
        """Return a person of this role, within the limit."""
        may = ROLE_PERMISSIONS[role]
        return Principal(name, may if self.permissions is None else may & self.permissions, self.scope, role)


class Access(Value, frozen=True, dict=True):
    """Known tokens and other ways to be known; without any, all callers are admins, and only loopback is served."""

    tokens: Mapping[bytes, Actor] = field(default_factory=dict)
    proxies: Proxies | None = None  #: that say who the client and the user are
    provider_roles: RoleMap | None = None  #: of those who log in at a provider of OpenID Connect

    @property
    def is_open(self) -> bool:
        """True if no request has to authenticate."""
        by_proxy = self.proxies is not None and not self.proxies.roles.is_empty
        return not self.tokens and not by_proxy and self.provider_roles is None

    @classmethod
    def of(
        cls,
        viewers: Mapping[str, str],
        operators: Mapping[str, str],
        admins: Mapping[str, str],
        limits: Mapping[str, Limit] | None = None,
        *,
        proxies: Proxies | None = None,
        provider_roles: RoleMap | None = None,
    ) -> Access:
        """Read the token of each name, the limits of their roles, and other ways to be known.

        Raises InvalidInput for a token that is empty or means two people, and for limits of unknown people.
        """
        limits = dict(limits or {})
        tokens: dict[bytes, Actor] = {}
        for role, people in ((Role.VIEWER, viewers), (Role.OPERATOR, operators), (Role.ADMIN, admins)):
            for name, token in people.items():
                if name == ANONYMOUS:
                    raise InvalidInput(f"nobody can be called {name!r}: that one acts in whatever name it says")
                if not token or _digest(token) in tokens:
                    raise InvalidInput(
                        f"the token of {role.name.lower()} {name!r} is empty, or somebody else's as well"
                    )
                limit = limits.get(name, Limit())
                tokens[_digest(token)] = Actor.of(limit.principal(name, role.name.lower()))
        known = {*viewers, *operators, *admins, *(proxies.roles.users if proxies else ())}
        by_group = provider_roles is not None or (proxies is not None and bool(proxies.roles.groups))
        if (unknown := limits.keys() - known) and not by_group:  # who is in a group is not known before they come
            raise InvalidInput(f"server.limits names {', '.join(sorted(unknown))}, who have no token")
        return cls(tokens, proxies, provider_roles)

    def check_address(self, host: str) -> None:
        """Raise InvalidInput if other machines can reach this address and there are no tokens."""
        if self.is_open and not is_loopback(host):
            raise InvalidInput(
                f"without a token the server listens on loopback only, not on {host!r}: give one in server.viewers, "
                "server.operators or server.admins, or listen on 127.0.0.1"
            )

    def actor(self, authorization: str | None) -> Actor | None:
        """Return the actor of this Authorization header; None for an unknown one."""
        if self.is_open:
            return Actor(ANONYMOUS, Role.ADMIN)
        kind, _, token = (authorization or "").partition(" ")
        return self.tokens.get(_digest(token.strip())) if kind.lower() == "bearer" else None

    def proxy_user(self, name: str, groups: Iterable[str]) -> Actor | None:
        """Return the actor that a proxy names; None without a role."""
        return None if self.proxies is None else self.proxies.roles.actor(name, groups)

    def holder(self, token: str) -> Actor | None:
        """Return the owner of a token; None for an unknown one."""
        return self.tokens.get(_digest(token))

    def actor_by_mark(self, mark: str) -> Actor | None:
        """Return the owner of the token with this mark; None once that token is not known any more."""
        return self._marks.get(mark)

    @cached_property
    def _marks(self) -> Mapping[str, Actor]:
        return {_mark(digest): actor for digest, actor in self.tokens.items()}


def is_foreign_request(headers: Mapping[str, str], client: tuple[str, int] | None) -> bool:
    """Return whether another machine, or a page of another site, sent it: without tokens the only protection."""
    if (client is not None and not is_loopback(client[0])) or "forwarded" in headers:
        return True
    if not all(is_loopback(each.strip()) for each in headers.get("x-forwarded-for", "127.0.0.1").split(",")):
        return True  # a proxy on this machine lets others in
    host = headers.get("host", "")
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    # Links from elsewhere name no origin, and lead here. Our own forms say "null": our pages send no referrer.
    return not is_loopback(name) or ("origin" in headers and is_from_other_site(headers))


def mark_of(token: str) -> str:
    """Return a stand-in for a token in a session, which cannot be sent as the token itself."""
    return _mark(_digest(token))


def _mark(digest: bytes) -> str:
    return hashlib.sha256(b"session of " + digest).hexdigest()[:32]


def _digest(token: str) -> bytes:
    data = token.encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).digest()  # the time of a lookup reveals nothing about the token


async def get_own_queue(request: Request) -> LetterQueue:  # async: FastAPI runs others in threads
    """Return the queue that this API serves, as its actor sees it; or that of the namespace that the path names."""
    views: QueueViews = request.app.state.views
    return views.of(request.scope["actor"], request.scope.get("namespace"))


class QueueViews:
    """The queue as each actor sees it; made once, because the services of a queue remember things."""

    def __init__(self, dlq: LetterQueue) -> None:
        self._dlq, self._namespace = dlq, dlq.namespace
        self._views: OrderedDict[tuple[Principal | None, str], LetterQueue] = OrderedDict()

    def of(self, actor: Actor, namespace: str | None = None) -> LetterQueue:
        """The queue as the actor sees it; in another namespace, if one is named."""
        key = (actor.principal, namespace or self._namespace)
        if key == (None, self._namespace):
            return self._dlq
        view = self._views.get(key)
        if view is None:
            whole = self._dlq if actor.principal is None else self._dlq.for_actor(actor.principal)
            view = self._views[key] = whole.in_namespace(key[1])
            while len(self._views) > _MOST_VIEWS:
                self._views.popitem(last=False)
        self._views.move_to_end(key)
        return view


async def get_queue(request: Request, namespace: NamespaceName | None = None) -> LetterQueue:
    """The queue that this API serves, for letters of the namespace that the request names; `*` for all."""
    if namespace is None:
        return await get_own_queue(request)
    if len(request.query_params.getlist("namespace")) > 1:
        raise InvalidInput("this is about one namespace, or about all of them: name one, or '*'")
    views: QueueViews = request.app.state.views
    return views.of(request.scope["actor"], namespace)


def get_service(kind: type[S], get: Callable[..., Awaitable[LetterQueue]] = get_queue) -> Callable[..., Awaitable[S]]:
    """A dependency: the service of this class, of the queue that `get` returns for the request."""

    async def find_service(request: Request, namespace: NamespaceName | None = None) -> S:
        return (await get(request, namespace)).service(kind)

    return find_service


def require_role(role: Role, action: str) -> Callable[[Request], Awaitable[Actor]]:
    """A dependency: the actor, who must have at least this role. A denial is written into the audit."""

    async def check_role(request: Request) -> Actor:
        actor: Actor = request.scope["actor"]
        if actor.role < role:
            what = request.scope["request_path"]
            why = f"needs the role {role.name.lower()}, and {actor.name} has the role {actor.role.name.lower()}"
            dlq: LetterQueue = request.app.state.dlq
            await dlq.audit.record_denial(actor.name, actor.role.name.lower(), action, what, why)
            raise HTTPException(403, f"{action} {why}")
        return actor

    return check_role


class LetterScope:
    """The queue that a task id in a path belongs to; its namespace is that of the `Queue` that a route gets."""

    def __init__(self, queue: Annotated[str, Field(min_length=1, max_length=500)] = DEFAULT_QUEUE) -> None:
        self.queue = queue
        self.arguments = {"queue": queue}


ScopeQuery = Annotated[LetterScope, Depends()]
Queue = Annotated[LetterQueue, Depends(get_queue)]
OwnQueue = Annotated[LetterQueue, Depends(get_own_queue)]  # where the parameters of a list name namespaces
Viewer = Annotated[Actor, Depends(require_role(Role.VIEWER, "looking"))]


def acting_name(actor: Actor, named: str | None) -> str:
    """The name that an act is recorded under.

    It is the name of the token. Another name in the request is recorded with the token's, or alone without tokens.

    >>> acting_name(Actor("ann", Role.OPERATOR), "bob"), acting_name(Actor("api_user", Role.ADMIN), "bob")
    ('bob (token of ann)', 'bob')
    """
    if not named or named == actor.name:
        return actor.name
    return named if actor.name == ANONYMOUS else f"{named} (token of {actor.name})"


def act_of(actor: Actor, body: ActionRequest | None) -> dict[str, Any]:
    """Return the arguments that name who acts, and why."""
    given = body or ActionRequest()
    return {"by": acting_name(actor, given.by), "notes": given.notes}


class Session(Value, frozen=True):
    """Somebody who has logged in with a browser. `form_token` is in every form that this session is shown."""

    id: str
    actor: Actor
    until: datetime
    form_token: str
    by_proxy: bool = False  #: it is the proxy's: no logout here ends it
    by_provider: bool = False  #: the provider of logins is asked for it again

    @property
    def begun(self) -> datetime:
        """Time of the login."""
        return self.until - LIFETIME


def local_target(given: str) -> str:
    """Return the page to lead to after a login: one of this console, and never another site.

    >>> local_target("/letters?q=adapter:orders"), local_target("https://evil.example/"), local_target("//evil")
    ('/letters?q=adapter:orders', '/', '/')
    >>> local_target("/login?next=/login"), local_target("/\\\\evil")
    ('/', '/')
    """
    try:
        parts = urlsplit(given)
    except ValueError:
        return "/"
    plain = given.isprintable() and "\\" not in given and given.startswith("/") and not given.startswith("//")
    local = plain and not parts.scheme and not parts.netloc and parts.path.split("/")[1] not in ("login", "logout")
    return given if local else "/"


LIFETIME = timedelta(hours=12)


class SessionSource(Protocol):
    """The sessions of browsers, as the middleware uses them."""

    async def find_in(self, connection: HTTPConnection) -> Session | None: ...
    def of_proxy(self, actor: Actor) -> Session: ...
    def why_forged(self, session: Session, headers: Mapping[str, str], body: bytes) -> str | None: ...
