"""Python sources: calls that write a checkpoint onto a name which nothing renames afterwards in the same function."""

from __future__ import annotations

import ast
import re

from prune.audit import words
from prune.audit.finding import COPIED, MOVED, POINTER, TRANSACTION, Finding
from prune.audit.scopes import Scope, scopes
from prune.audit.writes import MEMORY, Write, argument, is_in_archive, last, writes

# A source in which none of these stands writes nothing that is looked for; most sources are of that kind.
_TELLING = re.compile(
    r"save_(?:file|model|safetensors|pretrained|weights)\b|\bsavez?(?:_compressed)?\(|\bdump\(|write_(?:bytes|text)\(|\bcopy2?\(|copyfile|copytree|"
    r"copy_files|\bcp\(|\bmove\(|\bopena?\(|open_file\(|open_output_stream|\.compress\(|\bsystem\(|\bpopen\(|subprocess|"
    r"ZipFile\(|\.File\(|\bsh\."
)
_RENAMES = {"os.rename", "os.replace", "os.renames", "shutil.move", "os.link"}


def audit_python(source: str, file: str) -> list[Finding]:
    """Findings in one source. Raises SyntaxError where it cannot be parsed."""
    if _TELLING.search(source) is None:
        return []
    everything = scopes(ast.parse(source, file))
    place = "/".join(file.removesuffix(".py").split("/")[-2:])
    found: list[Finding] = []
    for scope in everything:
        opened: list[ast.Call] = []  # one finding a file, however many calls write to it
        for write in writes(scope, place):
            if write.opened in opened or _is_safe(write, scope, everything):
                continue
            if write.opened is not None:
                opened.append(write.opened)
            found.append(_finding(write, file))
    return sorted(set(found))


def _finding(write: Write, file: str) -> Finding:
    target = ast.unparse(write.target)
    writer = ast.unparse(write.call.func) if write.writer.startswith("?") else write.writer
    return Finding(file, write.call.lineno, writer, target, write.why, _safe_form(write, target))


def _safe_form(write: Write, target: str) -> str:
    if write.why in (COPIED, MOVED):
        return (
            f"copy to {target} + '.part', fsync it, os.replace('….part', {target}); "
            "or `prune mirror`, which also checks what landed"
        )
    if write.why == POINTER:
        return f"write {target} + '.tmp', fsync it, os.replace it onto {target}"
    if write.writer.endswith(".save_pretrained"):
        return f"with prune.publish_directory({target}) as folder: {write.writer}(folder, …)"
    return f"with prune.publish({target}) as file: {write.writer}(…, file)" + (
        "" if write.writer.startswith(("torch.save", "pickle", "np", "numpy")) else "; or give it file.name"
    )


# --- what is safe ------------------------------------------------------------------------------------------------


def _is_safe(write: Write, scope: Scope, everything: list[Scope]) -> bool:
    if write.why == TRANSACTION:
        return False
    given = write.opened.args if write.opened is not None else []
    texts = [text for each in (write.target, *given) for text in scope.texts(each)]
    if words.is_temporary(texts) or _in_memory(write, scope) or _is_renamed(write, scope):
        return True
    return _callers_rename(write, scope, everything)


def _in_memory(write: Write, scope: Scope) -> bool:
    for call in (write.opened, scope.handle(ast.unparse(write.target), write.call.lineno)):
        if call is not None and (MEMORY.search(scope.full_name(call.func)) or is_in_archive(call)):
            return True
    return False


def _is_renamed(write: Write, scope: Scope) -> bool:
    """Whether a later call of the same function renames what was written, or the directory it lies in."""
    roots = scope.roots(write.target)
    for call in scope.calls:
        if call.lineno < write.call.lineno or call is write.call:
            continue
        source = _renamed(scope, call)
        if source is not None and ast.unparse(source) in roots:
            return True
    return False


def _renamed(scope: Scope, call: ast.Call) -> ast.expr | None:
    """What a call renames, where it renames."""
    name = scope.full_name(call.func)
    if name in _RENAMES:
        return call.args[0] if call.args else None
    if not isinstance(call.func, ast.Attribute):
        return call.args[0] if call.args and re.search(r"rename|replace|commit|finali[sz]e|publish", name) else None
    if call.func.attr in ("rename", "replace") and len(call.args) == 1:
        return call.func.value  # pathlib: str.replace takes two
    if (
        re.search(r"\A(rename|mv|move|_?(atomic|commit|finali[sz]e|publish)\w*)\Z", call.func.attr)
        and len(call.args) > 1
    ):
        return call.args[0]
    return None


def _callers_rename(write: Write, scope: Scope, everything: list[Scope]) -> bool:
    """Whether the target is a parameter, and all calls in this file give it a temporary or rename it afterwards."""
    target = ast.unparse(write.target)
    if target not in scope.parameters:
        return False
    position = scope.parameters.index(target) - (scope.parameters[0] in ("self", "cls"))
    name = last(scope.name)
    calls = [
        (caller, call) for caller in everything for call in caller.calls if last(caller.full_name(call.func)) == name
    ]
    return bool(calls) and all(_gives_temporary(caller, call, position, target) for caller, call in calls)


def _gives_temporary(caller: Scope, call: ast.Call, position: int, keyword: str) -> bool:
    given = argument(call, position, keyword)
    if given is None:
        return False
    return words.is_temporary(caller.texts(given)) or _is_renamed(Write(call, "", given, ""), caller)
