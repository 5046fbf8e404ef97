"""Calls in Python that write a checkpoint, or the pointer to one, with the expression of what they write to."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from prune.audit import words
from prune.audit.finding import COPIED, IN_PLACE, MOVED, POINTER, REPLACED, TRANSACTION
from prune.audit.scopes import Scope
from prune.audit.shell import audit_shell

# Functions that write checkpoints and nothing else: full name's end -> (position, keyword) of the target.
_ALWAYS = {
    "torch.save": (1, "f"),
    "torch.jit.save": (1, "f"),
    "xm.save": (1, "file_or_path"),
    "xla_model.save": (1, "file_or_path"),
    "paddle.save": (1, "path"),
    "safetensors.torch.save_file": (1, "filename"),
    "safetensors.torch.save_model": (1, "filename"),
    "safetensors.numpy.save_file": (1, "filename"),
    "safetensors.flax.save_file": (1, "filename"),
    "safetensors.tensorflow.save_file": (1, "filename"),
    "safetensors.mlx.save_file": (1, "filename"),
    "mx.save_safetensors": (0, "file"),
    "mlx.core.save_safetensors": (0, "file"),
}
# Functions that write anything: a finding only where names tell of a checkpoint.
_SOMETIMES = {
    "numpy.save": (0, "file"),
    "numpy.savez": (0, "file"),
    "numpy.savez_compressed": (0, "file"),
    "jax.numpy.save": (0, "file"),
    "joblib.dump": (1, "filename"),
    "pickle.dump": (1, "file"),
    "cloudpickle.dump": (1, "file"),
    "dill.dump": (1, "file"),
}
_WHOLE_MODELS = {"save_pretrained": "save_directory", "save_weights": "filepath"}  # methods that write them in place
_COPIES = {"shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.copyfileobj"}
_FILE_COPY = re.compile(
    r"(path_?manager|file_?io|gfile|hdfs\w*|s3|\bfs|filesystem)\.(copy|cp|copyfile|copy_files)\Z", re.I
)
_RUNS = re.compile(r"\A(os\.(system|popen)|subprocess\.(run|call|check_call|check_output|Popen)|sh\.\w+)\Z")
MEMORY = re.compile(
    r"(BytesIO|StringIO|\w*TemporaryFile|TemporaryDirectory|mkstemp|publish(_directory)?|atomic\w*|\w*_atomic|"
    r"AtomicWriter)\Z",
    re.IGNORECASE,
)
_CONTAINERS = frozenset({"zipfile.ZipFile", "h5py.File", "tarfile.open"})
_ARCHIVE = re.compile(r"\A(zf|zip\w*|archive\w*|tar\w*|self\.archive)\Z", re.I)
_HANDLE_NAMES = frozenset(
    {"f", "fp", "fd", "fh", "file", "fileobj", "file_obj", "handle", "out", "fout", "stream", "io", "h"}
)
_SAVING = re.compile(r"save|dump|write|serializ", re.I)


@dataclass(frozen=True, slots=True)
class Write:
    """One call that writes, with the expression of what it writes to."""

    call: ast.Call
    writer: str
    target: ast.expr
    why: str
    opened: ast.Call | None = None  # the call that opened the file it writes through


def writes(scope: Scope, place: str) -> Iterator[Write]:
    """Every write of a checkpoint in a scope, safe or not. ``place`` is the source file's name and folder."""
    for call in scope.calls:
        name = scope.full_name(call.func)
        for look in (_serialiser, _copy, _opened_and_saved, _method, _pointer, _transaction, _shelled):
            write = look(scope, call, name, place)
            if write is not None:
                yield write
                break


def _serialiser(scope: Scope, call: ast.Call, name: str, place: str) -> Write | None:
    always = _by_end(_ALWAYS, name)
    where = always or _by_end(_SOMETIMES, name)
    target = argument(call, *where) if where else None
    if target is None:
        return None
    opens = isinstance(target, ast.Call) and _target_of_open(scope, target) is not None
    opened = target if isinstance(target, ast.Call) and opens else _opened(scope, target, call.lineno)
    if always is None and not _of_checkpoint(scope, call, place, weakly=name.startswith(("numpy", "np", "jax"))):
        return None
    if opened is None and ast.unparse(target) in _HANDLE_NAMES:
        return None  # a file that somebody else opened: their function is where to look
    if opened is not None:
        inner = _target_of_open(scope, opened)
        return Write(call, name, inner if inner is not None else target, IN_PLACE, opened)
    return Write(call, name, target, IN_PLACE)


def _copy(scope: Scope, call: ast.Call, name: str, place: str) -> Write | None:
    destination = call.args[1] if len(call.args) > 1 else argument(call, 1, "dst")
    is_copy = name in _COPIES or (_FILE_COPY.search(name) is not None and len(call.args) > 1)
    if destination is None or not (is_copy or name == "shutil.move"):
        return None
    if name == "shutil.copyfileobj":
        opened = _opened(scope, destination, call.lineno)
        inner = _target_of_open(scope, opened) if opened is not None else None
        if inner is None or not _speaks(scope.texts(inner), scope):
            return None
        return Write(call, name, inner, COPIED, opened)
    texts = [text for argument in call.args[:2] for text in scope.texts(argument)]
    if words.is_other_file(scope.last_string(destination)) or not _speaks(texts, scope):
        return None
    return Write(call, name, destination, MOVED if name == "shutil.move" else COPIED)


def _opened_and_saved(scope: Scope, call: ast.Call, name: str, place: str) -> Write | None:
    """A file opened for binary writing that is handed to something which saves, or is written to directly."""
    target = _target_of_open(scope, call)
    if target is None or words.is_other_file(scope.last_string(target)):
        return None
    if name not in _CONTAINERS and "b" not in (_mode(call) or "b"):
        return None
    if words.is_aside([ast.unparse(target)]):
        return None
    bound = [handle for handle, made in scope.handles.items() if any(each is call for each in made)]
    uses = [use for use in scope.calls if bound and _uses(use, bound[0])]
    saved = any(_SAVING.search(scope.full_name(use.func)) for use in uses)
    named = _speaks(scope.texts(target), scope)
    if not (named or (saved and words.is_checkpoint([place]))) or _is_known_writer(scope, uses):
        return None
    return Write(call, name, target, IN_PLACE, call)


def _method(scope: Scope, call: ast.Call, name: str, place: str) -> Write | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr in _WHOLE_MODELS:
        where = argument(call, 0, _WHOLE_MODELS[call.func.attr])
        speaks = where is not None and _speaks(scope.texts(where), scope)
        return Write(call, ast.unparse(call.func), where, IN_PLACE) if where is not None and speaks else None
    if call.func.attr not in ("write_bytes", "write_text"):
        return None
    target = call.func.value
    texts = [text for each in (target, *call.args) for text in scope.texts(each)]
    if call.func.attr == "write_text" or words.is_other_file(scope.last_string(target)):
        return Write(call, call.func.attr, target, POINTER) if words.is_pointer(scope.texts(target)) else None
    return Write(call, call.func.attr, target, REPLACED) if _speaks(texts, scope) else None


def _pointer(scope: Scope, call: ast.Call, name: str, place: str) -> Write | None:
    target = _target_of_open(scope, call)
    if target is None or "b" in (_mode(call) or "") or not words.is_pointer(scope.texts(target)):
        return None
    return Write(call, name, target, POINTER, call)


def _transaction(scope: Scope, call: ast.Call, name: str, place: str) -> Write | None:
    """``with fs.transaction:`` around an open for writing."""
    target = _target_of_open(scope, call)
    if target is None or not name.endswith(".open") or not isinstance(call.func, ast.Attribute):
        return None
    file_system = ast.unparse(call.func.value)
    for node in ast.walk(ast.Module(list(scope.body), [])):
        if isinstance(node, ast.With) and any(
            ast.unparse(item.context_expr) == f"{file_system}.transaction" for item in node.items
        ):
            return Write(call, f"{file_system}.transaction", target, TRANSACTION, call)
    return None


def _shelled(scope: Scope, call: ast.Call, name: str, place: str) -> Write | None:
    """A shell command, or the words of one, that is run from Python."""
    if not _RUNS.search(name) or not call.args:
        return None
    for found in audit_shell(_command_line(call.args[0]), ""):
        return Write(call, f"{name}: {found.writer}", ast.Constant(found.target), found.why)
    return None


def _command_line(expression: ast.expr) -> str:
    """The command as a shell would be given it, with ``$name`` for what is not known."""
    if isinstance(expression, ast.List | ast.Tuple):
        return " ".join(_word(element) for element in expression.elts)
    if isinstance(expression, ast.JoinedStr):
        return "".join(_word(value) if isinstance(value, ast.FormattedValue) else str(_literal(value) or "")
                       for value in expression.values)  # fmt: skip
    return _literal(expression) or ""


def _word(expression: ast.expr) -> str:
    text = _literal(expression)
    if text is not None:
        return shlex.quote(text)
    inner = expression.value if isinstance(expression, ast.FormattedValue | ast.Starred) else expression
    return "$" + re.sub(r"\W+", "_", ast.unparse(inner))


def is_in_archive(call: ast.Call) -> bool:
    """``archive.open(member, "w")``: the archive is the file."""
    if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func) in ("zipfile.ZipFile", "tarfile.open"):
        return False
    return _ARCHIVE.search(ast.unparse(call.func.value)) is not None


def _opened(scope: Scope, handle: ast.expr, line: int) -> ast.Call | None:
    """The call that opened the file a name stands for; None for a name that is no open file."""
    name = ast.unparse(handle)
    call = scope.handle(name, line)
    if call is None or name in scope.entered or _target_of_open(scope, call) is not None:
        return call
    return call if MEMORY.search(scope.full_name(call.func)) else None


# --- small questions ---------------------------------------------------------------------------------------------


def _of_checkpoint(scope: Scope, call: ast.Call, place: str, *, weakly: bool) -> bool:
    """Whether the arguments of a call, or the function around it, speak of a checkpoint."""
    texts = [text for argument in call.args for text in scope.texts(argument)]
    opened = _opened(scope, call.args[-1], call.lineno) if call.args else None
    texts += [text for argument in (opened.args if opened else []) for text in scope.texts(argument)]
    last = scope.last_string(call.args[0]) if call.args and weakly else None
    return not words.is_other_file(last) and _speaks(texts, scope)


def _speaks(texts: list[str], scope: Scope) -> bool:
    """Whether names and strings, or the name of the function they are in, speak of a checkpoint."""
    return words.is_checkpoint(texts) or words.saves_checkpoints(last(scope.name))


def _target_of_open(scope: Scope, call: ast.Call | None) -> ast.expr | None:
    """What a call opens for writing, anew; None where it does not."""
    if call is None:
        return None
    name = scope.full_name(call.func)
    mode = _mode(call)
    ends = name.rpartition(".")[2]
    if ends in ("open", "opena", "open_file", "create_stream") or name in _CONTAINERS:
        if is_in_archive(call):
            return None
        if name == "os.open":
            flags = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
            return call.args[0] if re.search(r"O_CREAT|O_TRUNC", flags) else None
        if isinstance(call.func, ast.Attribute) and call.args and mode == _literal(call.args[0]):
            return call.func.value if mode is not None and set(mode) & set("wx") else None  # path.open("wb")
        return _first(call, mode)
    entered = any(call in scope.handles.get(name, ()) for name in scope.entered)
    if call.args and (ends == "open_output_stream" or (ends == "compress" and entered)):
        return call.args[0]
    return None


def _first(call: ast.Call, mode: str | None) -> ast.expr | None:
    return call.args[0] if call.args and mode is not None and set(mode) & set("wx") else None


def _mode(call: ast.Call) -> str | None:
    for keyword in call.keywords:
        if keyword.arg == "mode":
            return _literal(keyword.value)
    for argument in call.args[:2]:
        text = _literal(argument)
        if text is not None and re.fullmatch(r"[rwxabt+]{1,3}(:\w*)?", text):
            return text
    return None


def _literal(expression: ast.expr) -> str | None:
    return expression.value if isinstance(expression, ast.Constant) and isinstance(expression.value, str) else None


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    for given in call.keywords:
        if given.arg == keyword:
            return given.value
    return call.args[position] if 0 <= position < len(call.args) else None


def _by_end(table: dict[str, tuple[int, str]], name: str) -> tuple[int, str] | None:
    return next((where for end, where in table.items() if name == end or name.endswith(f".{end}")), None)


def _uses(call: ast.Call, handle: str) -> bool:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    is_method = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == handle
    return is_method or any(ast.unparse(argument) == handle for argument in arguments)


def _is_known_writer(scope: Scope, uses: list[ast.Call]) -> bool:
    """Whether the file goes to a function that is looked at by itself."""
    names = [scope.full_name(use.func) for use in uses]
    return any(name in _COPIES or _by_end({**_ALWAYS, **_SOMETIMES}, name) for name in names)


def last(name: str) -> str:
    return name.rpartition(".")[2]
