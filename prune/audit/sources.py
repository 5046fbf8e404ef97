"""Which files an audit reads, and what it makes of each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator

from prune.audit.finding import Audited, Finding
from prune.audit.python import audit_python
from prune.audit.shell import audit_shell
from prune.errors import UsageError

_SHELL = (".sh", ".bash", ".zsh", ".ksh", ".sbatch", ".slurm", ".pbs", ".qsub")
_SHEBANG = re.compile(rb"#!\s*\S*?(?:env\s+)?(?P<program>python|bash|sh|zsh|ksh|dash)[\d.]*\b")
_PASSED_OVER = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", ".tox", ".nox", ".mypy_cache"})
_ENVIRONMENTS = frozenset({"site-packages", "dist-packages", ".venv", "venv"})
_TESTS = frozenset({"tests", "test", "testing"})
_MOST = 8 << 20  # a longer file was made by a program, and is none


def audit(paths: Iterable[str]) -> Audited:
    """Audits files, and all sources below directories: Python, shell, notebooks. Links to directories are not followed.

    Tests are passed over below a directory, and installed packages unless one of the paths is in them. Raises
    UsageError for a path that is not there.
    """
    findings: list[Finding] = []
    unparsed: list[str] = []
    unread: list[str] = []
    files = tests = 0
    for path, is_test in _sources(paths, unread):
        if is_test:
            tests += 1
            continue
        try:
            found = _audit_file(path)
        except OSError as error:
            unread.append(f"{path}: {error.strerror}")
            continue
        except (SyntaxError, ValueError, RecursionError) as error:
            unparsed.append(f"{path}: {str(error) or type(error).__name__}")
            continue
        if found is not None:
            files += 1
            findings += found
    return Audited(tuple(sorted(set(findings))), files, tests, tuple(unparsed), tuple(unread))


def _audit_file(path: str) -> list[Finding] | None:
    """Findings in one file; None where it is no source. Raises what reading and parsing raise."""
    with open(path, "rb") as file:
        head = file.read(200)
        kind = _kind(path, head)
        if kind is None or os.fstat(file.fileno()).st_size > _MOST:
            return None
        text = (head + file.read()).decode("utf-8", "replace")
    match kind:
        case "python":
            return audit_python(text, path)
        case "notebook":
            return _audit_notebook(text, path)
        case _:
            return audit_shell(text, path)


def _kind(path: str, head: bytes) -> str | None:
    if path.endswith((".py", ".pyw")):
        return "python"
    if path.endswith(".ipynb"):
        return "notebook"
    if path.endswith(_SHELL):
        return "shell"
    match = _SHEBANG.match(head)
    if match is None:
        return None
    return "python" if match["program"] == b"python" else "shell"


def _audit_notebook(text: str, path: str) -> list[Finding]:
    """Findings in the code of a notebook, named ``FILE#cell-N``; lines are those of the cell."""
    document = json.loads(text)
    cells = document.get("cells", []) if isinstance(document, dict) else []
    found: list[Finding] = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        lines = (source if isinstance(source, str) else "".join(source)).split("\n")
        if lines and lines[0].startswith("%%"):
            continue
        code = "\n".join("pass" if line.lstrip().startswith(("!", "%")) else line for line in lines)
        try:
            found += audit_python(code, f"{path}#cell-{number}")
        except SyntaxError:
            continue  # what only a notebook understands
    return found


def _sources(paths: Iterable[str], unread: list[str]) -> Iterator[tuple[str, bool]]:
    for path in paths:
        if os.path.isdir(path):
            yield from _below(path, unread)
        elif os.path.lexists(path):
            yield path, False
        else:
            raise UsageError(f"{path}: there is no such file or directory")


def _below(top: str, unread: list[str]) -> Iterator[tuple[str, bool]]:
    inside = _ENVIRONMENTS & set(os.path.abspath(top).split(os.sep))

    def wanted(name: str) -> bool:
        return name not in _PASSED_OVER and (bool(inside) or name not in _ENVIRONMENTS)

    def note(error: OSError) -> None:
        unread.append(f"{error.filename}: {error.strerror}")

    for folder, folders, names in os.walk(top, onerror=note):
        folders[:] = sorted(name for name in folders if wanted(name))
        parts = set(os.path.relpath(folder, top).split(os.sep))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (not os.path.islink(path)):
                yield path, bool(parts & _TESTS) or _is_test(name)


def _is_test(name: str) -> bool:
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py")
