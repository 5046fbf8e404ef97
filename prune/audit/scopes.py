"""Names in Python sources: what a call is called by its full name, and what an expression is made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_DEPTH = 3  # assignments followed from one name


@dataclass
class Module:
    """Imports and constants of one source file."""

    imports: dict[str, str] = field(default_factory=dict)  # local name -> full dotted name
    constants: dict[str, ast.expr] = field(default_factory=dict)

    def take(self, node: ast.AST) -> None:
        """Notes what an import statement binds."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self.imports[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}".lstrip(".")


@dataclass
class Scope:
    """One function, or the body of a module: what its names were last made of."""

    module: Module
    name: str  # of the function, with those around it
    body: Sequence[ast.stmt]
    parameters: list[str] = field(default_factory=list)
    made_of: dict[str, list[ast.expr]] = field(default_factory=dict)
    handles: dict[str, list[ast.Call]] = field(default_factory=dict)  # name -> calls it stood for
    entered: set[str] = field(default_factory=set)  # names bound by with
    calls: list[ast.Call] = field(default_factory=list)  # in the order of their lines

    def take(self, node: ast.AST) -> None:
        """Notes what a node calls or binds."""
        if isinstance(node, ast.Call):
            self.calls.append(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind(node.target, node.value)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, item.context_expr)
                    self.entered.add(ast.unparse(item.optional_vars))

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple):  # fd, name = tempfile.mkstemp()
            for element in target.elts:
                self._bind(element, value)
            return
        name = target.id if isinstance(target, ast.Name) else ast.unparse(target)
        self.made_of.setdefault(name, []).append(value)
        if isinstance(value, ast.Call):
            self.handles.setdefault(name, []).append(value)

    def handle(self, name: str, line: int) -> ast.Call | None:
        """The call that a name stands for at a line."""
        before = [call for call in self.handles.get(name, []) if call.lineno <= line]
        return max(before, key=lambda call: call.lineno, default=None)

    def full_name(self, function: ast.expr) -> str:
        """The dotted name of what is called, imports resolved: ``th.save`` is ``torch.save``."""
        parts: list[str] = []
        node = function
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            parts.append(self.module.imports.get(node.id, node.id))
        else:
            parts.append("?")
        return ".".join(reversed(parts))

    def texts(self, expression: ast.expr, depth: int = _DEPTH) -> list[str]:
        """Every name and string an expression is made of, assignments followed."""
        found: list[str] = []
        for node in ast.walk(expression):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.Attribute):
                found.append(node.attr)
                found += self._followed(ast.unparse(node), depth)
            elif isinstance(node, ast.Name):
                found.append(node.id)
                found += self._followed(node.id, depth)
        return found

    def _followed(self, name: str, depth: int) -> list[str]:
        values = self.made_of.get(name, [])
        if not values and name in self.module.constants:
            values = [self.module.constants[name]]
        return [text for value in values if depth for text in self.texts(value, depth - 1)]

    def roots(self, expression: ast.expr, depth: int = _DEPTH) -> set[str]:
        """The names and attributes an expression starts from, assignments followed; itself among them."""
        found = {ast.unparse(expression)}
        for node in ast.walk(expression):
            if isinstance(node, ast.Name | ast.Attribute):
                name = ast.unparse(node)
                found.add(name)
                if depth:
                    for value in self.made_of.get(name, []):
                        found |= self.roots(value, depth - 1)
        return found

    def last_string(self, expression: ast.expr, depth: int = _DEPTH) -> str | None:
        """The last string in an expression: how the path ends, where the source says."""
        if isinstance(expression, ast.Constant):
            return expression.value if isinstance(expression.value, str) else None
        if isinstance(expression, ast.Name | ast.Attribute):
            name = ast.unparse(expression)
            value = self.made_of[name][-1] if name in self.made_of else self.module.constants.get(name)
            return self.last_string(value, depth - 1) if value is not None and depth else None
        if isinstance(expression, ast.JoinedStr):
            return self.last_string(expression.values[-1], depth) if expression.values else None
        if isinstance(expression, ast.BinOp):
            return self.last_string(expression.right, depth)
        if isinstance(expression, ast.Call) and expression.args:
            return self.last_string(expression.args[-1], depth)
        return None


def scopes(tree: ast.Module) -> list[Scope]:
    """The body of a module, and every function and class in it, each node looked at once."""
    module = Module(constants=dict(_assigned(tree.body)))
    found: list[Scope] = []
    waiting: list[tuple[str, Sequence[ast.stmt], list[str]]] = [("", tree.body, [])]
    while waiting:
        scope = Scope(module, *waiting.pop())
        for node in _own_nodes(scope.body):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                waiting.append((f"{scope.name}.{node.name}".lstrip("."), node.body, _parameters(node.args)))
            elif isinstance(node, ast.ClassDef):
                waiting.append((f"{scope.name}.{node.name}".lstrip("."), node.body, []))
            else:
                module.take(node)
                scope.take(node)
        found.append(scope)
    return found


def _own_nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Every node of a body in the order of the source; of functions and classes defined in it, only themselves."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        below: list[ast.AST] = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                below += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                below.append(value)
        waiting.extend(reversed(below))


def _parameters(arguments: ast.arguments) -> list[str]:
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
