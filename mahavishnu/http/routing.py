"""Declaration of routes, and the way from a request to the arguments of its handler.

The declarations belong to no web framework: `create_app` hands them to FastAPI, and the command line calls them in its
own process (`mahavishnu.core.api_local`), where importing FastAPI would take longer than everything else.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.model.record import Value

if TYPE_CHECKING:
    from fastapi import APIRouter

API = "/api/v1"  #: where all routes are, but those about health
Handler = Callable[..., Awaitable[Response]]
_SCALARS = (str, int, float, bool)


class Depends(Value, frozen=True):
    """Marks an argument that `call` makes from the request; without it, the class that is annotated."""

    call: Callable[..., Any] | None = None


class Query(Value, frozen=True):
    """Marks a model whose fields are the parameters of the query string."""


class Header(Value, frozen=True):
    """Marks an argument that is the request's header of the same name."""

    description: str | None = None


class InvalidRequest(Exception):
    """A request that its handler cannot take."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__(f"{len(errors)} problems")
        self._errors = errors

    def errors(self) -> list[dict[str, Any]]:
        """The problems, as pydantic describes them; each `loc` begins with the part of the request."""
        return self._errors


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    options: Mapping[str, Any]  #: for OpenAPI

    def match(self, method: str, path: str) -> dict[str, str] | None:
        """The variable parts of the path, or None if this route is for other requests."""
        found = self._pattern.fullmatch(path) if method == self.method else None
        return None if found is None else found.groupdict()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.path)))


class Router:
    """The routes of one resource, in the order in which they are tried."""

    def __init__(self, *, tag: str, prefix: str = "", documented: bool = True) -> None:
        """`documented`: whether the routes are in OpenAPI; pages are not."""
        self.tag, self.prefix, self.documented, self.routes = tag, prefix, documented, list[Route]()

    def get(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare the answer to GET."""
        return self._declare("GET", path, options)

    def post(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare the answer to POST."""
        return self._declare("POST", path, options)

    def patch(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare the answer to PATCH."""
        return self._declare("PATCH", path, options)

    def delete(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare the answer to DELETE."""
        return self._declare("DELETE", path, options)

    def add_to(self, router: APIRouter, at: str = "") -> None:
        """Add the routes to a router of FastAPI, below the path `at`."""
        for route in self.routes:
            handler = _for_fastapi(route.handler)
            options = {**route.options, "include_in_schema": self.documented}
            router.add_api_route(at + route.path, handler, methods=[route.method], tags=[self.tag], **options)

    def _declare(self, method: str, path: str, options: Mapping[str, Any]) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            self.routes.append(Route(method, self.prefix + path, handler, options))
            return handler

        return declare


async def arguments(handler: Any, request: Request, path: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of a handler. Raises InvalidRequest with all that is wrong with the request."""
    values: dict[str, Any] = {}
    errors: list[dict[str, Any]] = []
    hints = get_type_hints(vars(handler)["__init__"] if isinstance(handler, type) else handler, include_extras=True)
    for name, parameter in inspect.signature(handler).parameters.items():
        hint = hints[name]
        kind, marker = _type_and_marker(hint)
        part: tuple[str, ...] = ("query", name)
        given: Any = None
        match marker:
            case Depends():
                call = marker.call or kind
                made = call(**await arguments(call, request, path))
                values[name] = await made if inspect.isawaitable(made) else made
                continue
            case Query():
                part, given = ("query",), _query(request, kind)
            case Header():
                given = request.headers.get(name.replace("_", "-"))
                part = ("header", name.replace("_", "-"))
            case _ if kind is Request:
                values[name] = request
                continue
            case _ if name in path:
                given = path[name]
            case _ if _is_body(kind):
                part, given = ("body",), await request.json() if await request.body() else None
            case _:
                given = request.query_params.get(name)
        if given is None:
            if parameter.default is inspect.Parameter.empty:
                errors.append({"type": "missing", "loc": part, "msg": "Field required", "input": None})
            values[name] = parameter.default
            continue
        try:
            values[name] = TypeAdapter(hint).validate_python(given, from_attributes=True)  # as FastAPI does it
        except ValidationError as invalid:
            errors += [{**each, "loc": (*part, *each["loc"])} for each in invalid.errors(include_url=False)]
    if errors:
        raise InvalidRequest(errors)
    return values


def _query(request: Request, model: type[BaseModel]) -> dict[str, Any]:
    """The parameters of a query string; those that the model has as lists are lists."""
    given = request.query_params
    lists = [name for name, field in model.model_fields.items() if _takes_list(field.annotation)]
    return {name: given.getlist(name) if name in lists else given[name] for name in given}


def _takes_list(hint: Any) -> bool:
    if get_origin(hint) in (Annotated, Union, UnionType):
        return any(_takes_list(each) for each in get_args(hint))
    return hint is list or get_origin(hint) is list


def _is_body(kind: Any) -> bool:
    """Return True if an argument is the body, rather than a parameter of the query string."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return not all(_type_and_marker(each)[0] in (*_SCALARS, NoneType) for each in kinds)


def _type_and_marker(hint: Any) -> tuple[Any, Depends | Query | Header | None]:
    """A type, and how its value is found where that does not follow from it."""
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *marks = get_args(hint)
    return kind, next((mark for mark in marks if isinstance(mark, Depends | Query | Header)), None)


def _for_fastapi(handler: Handler) -> Handler:
    """The handler with FastAPI's marks in the place of ours."""
    import fastapi

    def translate(hint: Any) -> Any:
        kind, marker = _type_and_marker(hint)
        match marker:
            case Depends():
                return Annotated[kind, fastapi.Depends(marker.call)]
            case Query():
                return Annotated[kind, fastapi.Query()]
            case Header():
                return Annotated[kind, fastapi.Header(description=marker.description)]
        return hint

    hints = get_type_hints(handler, include_extras=True)
    signature = inspect.signature(handler)
    parameters = [each.replace(annotation=translate(hints[each.name])) for each in signature.parameters.values()]
    made = signature.replace(parameters=parameters, return_annotation=hints["return"])
    handler.__signature__ = made  # type: ignore[attr-defined]
    return handler
