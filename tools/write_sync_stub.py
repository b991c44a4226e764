"""Write mahavishnu/core/sync.pyi, the types of `app.sync`: `make fix` runs it, and `make check` with `--check`.

`mahavishnu/core/sync.py` finds methods when they are called, and type checkers cannot. The stub has the classes of that
module, and a class for each service of `DeadLetterQueue`, with the awaited methods as their source declares them, but
not async. `--check` fails if the stub is not what this would write.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from mahavishnu.core import sync
from mahavishnu.core.dead_letter_queue import DeadLetterQueue

STUB = Path(__file__).parents[1] / "mahavishnu" / "core" / "sync.pyi"
HEADER = "# Written by tools/write_sync_stub.py: run `make fix` after a change of a service.\n"
ELLIPSIS = ast.Expr(ast.Constant(...))
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


@cache
def bindings_of(module: str) -> dict[str, tuple[str, str]]:
    """The module and the attribute that each name of a module stands for; without an attribute for a module."""
    bound: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom):
            bound = {each.asname or each.name: (node.module or "", each.name) for each in node.names} | bound
        elif isinstance(node, ast.Import):
            bound = {each.asname or each.name: (each.name, "") for each in node.names} | bound
    local = [
        name for name in vars(importlib.import_module(module)) if name not in bound and not hasattr(builtins, name)
    ]
    return bound | {name: (module, name) for name in local}


def find(module: str, attribute: str) -> Any:
    """What an import gives: a module, or something in one."""
    if not attribute:
        return importlib.import_module(module)
    there = importlib.import_module(module)
    return getattr(there, attribute) if hasattr(there, attribute) else importlib.import_module(f"{module}.{attribute}")


class Imports:
    """The imports of the stub, where names of many modules meet."""

    def __init__(self) -> None:
        self._things: dict[str, object] = {}
        self._lines: list[str] = []

    def name(self, module: str, attribute: str) -> str:
        """Import this from where it is defined, and return the name that it has in the stub."""
        thing = find(module, attribute)
        home = getattr(thing, "__module__", None) or module
        if not home.startswith("_") and getattr(importlib.import_module(home), attribute, None) is thing:
            module = home
        name = attribute
        if self._things.get(name, thing) is not thing:
            name = f"{module.rpartition('.')[2]}_{attribute}"
        if name not in self._things:
            self._things[name] = thing
            self._lines.append(f"from {module} import {attribute}" + (f" as {name}" if name != attribute else ""))
        return name

    def __str__(self) -> str:
        return "\n".join(self._lines)


class Signature(ast.NodeTransformer):
    """Makes the signature of a method of one module and class mean the same in the stub."""

    def __init__(self, imports: Imports, faces: dict[type, str], module: str, owner: str = "") -> None:
        self._imports, self._faces, self._module, self._owner = imports, faces, module, owner

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "Self" and self._owner:
            return ast.Name(self._imports.name(self._module, self._owner))
        if self._module == sync.__name__ and (node.id.startswith("Sync") or len(node.id) == 1):
            return node  # a class or a type variable of the stub
        found = bindings_of(self._module).get(node.id)
        return ast.Name(self._imports.name(*found)) if found else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if not isinstance(node.value, ast.Name):
            return ast.Attribute(self.visit(node.value), node.attr)
        if node.value.id == "builtins":
            return node
        module = find(*bindings_of(self._module)[node.value.id])
        if isinstance(module, ModuleType):
            return ast.Name(self._imports.name(module.__name__, node.attr))
        return ast.Attribute(self.visit(node.value), node.attr)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "Literal":
            return ast.Subscript(self.visit(node.value), node.slice)
        if isinstance(node.value, ast.Name) and node.value.id == "SyncService" and isinstance(node.slice, ast.Name):
            return ast.Name(self._faces[find(*bindings_of(self._module)[node.slice.id])])
        return self.generic_visit(node)  # type: ignore[return-value]

    def of(self, function: Function, *, is_generator: bool = False) -> ast.FunctionDef:
        """The function without a body and without `async`."""
        args, returns = self.visit(function.args), function.returns and self.visit(function.returns)
        args.defaults = [each if isinstance(each, ast.Constant) else ast.Constant(...) for each in args.defaults]
        args.kw_defaults = [
            each if each is None or isinstance(each, ast.Constant) else ast.Constant(...) for each in args.kw_defaults
        ]
        if is_generator:
            assert isinstance(returns, ast.Subscript), f"{function.name} does not say what it generates"
            item = returns.slice.elts[0] if isinstance(returns.slice, ast.Tuple) else returns.slice
            returns = ast.Subscript(ast.Name(self._imports.name("collections.abc", "Generator")), item)
        decorators = [self.visit(each) for each in function.decorator_list]
        return ast.FunctionDef(function.name, args, [ELLIPSIS], decorators, returns)


def declarations(body: list[ast.stmt], name: str) -> list[Function]:
    """The function of this name, or its overloads."""
    found = [node for node in body if isinstance(node, Function) and node.name == name]
    return [node for node in found if node.decorator_list] if len(found) > 1 else found


def class_body(module: str, name: str) -> list[ast.stmt]:
    return next(node.body for node in tree_of(module).body if isinstance(node, ast.ClassDef) and node.name == name)


class Stub:
    """The stub as it is put together."""

    def __init__(self) -> None:
        queue = DeadLetterQueue()
        self.services = {name: type(getattr(queue, name)) for name in sync.service_names(DeadLetterQueue)}
        self.faces = {service: f"Sync{name.title().replace('_', '')}" for name, service in self.services.items()}
        self.imports = Imports()

    def awaited(self, service: type, without: set[str]) -> Iterator[ast.stmt]:
        """The methods of a service, in the order of its source."""
        for name in sync.awaited_methods(service):
            owner = next(base for base in service.__mro__ if name in vars(base))
            signature = Signature(self.imports, self.faces, owner.__module__, service.__name__)
            is_generator = inspect.isasyncgenfunction(vars(owner)[name])
            for function in declarations(class_body(owner.__module__, owner.__name__), name):
                if name not in without:
                    yield signature.of(function, is_generator=is_generator)

    def face(self, node: ast.ClassDef) -> ast.ClassDef:
        """A class of `sync.py`: its public methods, and those of the service that it is made for."""
        signature = Signature(self.imports, self.faces, sync.__name__)
        names = {each.name: each for each in node.body if isinstance(each, Function)}
        shown = [name for name in names if not name.startswith("_") or name in ("__init__", "__enter__", "__exit__")]
        body: list[ast.stmt] = [signature.of(each) for name in shown for each in declarations(node.body, name)]
        base = node.bases[0]
        if isinstance(base, ast.Subscript) and isinstance(base.value, ast.Name) and base.value.id == "SyncService":
            of = base.slice.value if isinstance(base.slice, ast.Constant) else ast.unparse(base.slice)
            module, name = bindings_of(sync.__name__)[str(of)]
            body += self.awaited(find(module, name), set(names))
            if find(module, name) is DeadLetterQueue:
                body += [self.property_of(name, self.faces[service]) for name, service in self.services.items()]
            base = ast.Subscript(base.value, ast.Name(self.imports.name(module, name)))
        else:
            base = signature.visit(base)
        return ast.ClassDef(node.name, [base], [], body or [ELLIPSIS], [])

    def property_of(self, name: str, face: str) -> ast.FunctionDef:
        arguments = ast.arguments([], [ast.arg("self")], None, [], [], None, [])
        return ast.FunctionDef(name, arguments, [ELLIPSIS], [ast.Name("property")], ast.Name(face))

    def service_face(self, service: type, name: str) -> ast.ClassDef:
        """A class for a service that `sync.py` has none for: at run time it is a `SyncService`."""
        base = ast.Subscript(ast.Name("SyncService"), ast.Name(self.imports.name(service.__module__, service.__name__)))
        return ast.ClassDef(name, [base], [], list(self.awaited(service, set())), [ast.Name("type_check_only")])

    def __str__(self) -> str:
        body: list[ast.stmt] = []
        signature = Signature(self.imports, self.faces, sync.__name__)
        for node in tree_of(sync.__name__).body:
            if isinstance(node, ast.ClassDef):
                body.append(self.face(node))
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                body.append(signature.of(node))
            elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(("TypeVar(", "ParamSpec(")):
                body.insert(0, signature.visit(node))
        body += [self.service_face(service, name) for service, name in self.faces.items()]
        text = "\n".join(ast.unparse(ast.fix_missing_locations(each)) for each in body)
        return f"{HEADER}import builtins\nfrom typing import type_check_only\n{self.imports}\n\n{text}\n"


def clean(text: str, command: str, *options: str) -> str:
    ruff = [sys.executable, "-m", "ruff", command, *options, "--stdin-filename", str(STUB), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, encoding="utf-8").stdout


def main() -> int:
    text = clean(clean(str(Stub()), "check", "--fix", "--select", "I,F401"), "format")
    if "--check" not in sys.argv:
        STUB.write_text(text, encoding="utf-8")
    elif not STUB.exists() or STUB.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{STUB.name} is not what the services say: run `make fix`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
