from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from prune.audit import audit
from prune.errors import UsageError

WRITER = "import torch\ntorch.save(state, path)\n"


def files(tmp_path: Path) -> list[str]:
    return [os.path.relpath(finding.file, tmp_path) for finding in audit([str(tmp_path)]).findings]


def test_sources_of_all_kinds_are_read_below_a_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "train.py").write_text(WRITER)
    (tmp_path / "job.sbatch").write_text("cp a.ckpt b.ckpt\n")
    (tmp_path / "run").write_text("#!/usr/bin/env bash\ncp a.ckpt b.ckpt\n")
    (tmp_path / "go").write_text("#!/usr/bin/python3\n" + WRITER)
    (tmp_path / "notes.md").write_text("cp a.ckpt b.ckpt\n")
    assert files(tmp_path) == ["go", "job.sbatch", "run", "sub/train.py"]


def test_notebooks_are_read_cell_by_cell(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "torch.save(state, path)"},
        {"cell_type": "code", "source": ["!pip install x\n", "import torch\n", "torch.save(state, path)"]},
        {"cell_type": "code", "source": "%%bash\ncp a.ckpt b.ckpt"},
        {"cell_type": "code", "source": "what only ? a notebook knows"},
    ]
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": cells}))
    (finding,) = audit([str(tmp_path)]).findings
    assert (Path(finding.file).name, finding.line) == ("train.ipynb#cell-2", 3)


def test_tests_and_installed_packages_are_passed_over_unless_they_are_named(tmp_path: Path) -> None:
    for folder in ("tests", ".venv/lib", "lib/site-packages/pkg", ".git"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "writer.py").write_text(WRITER)
    (tmp_path / "test_save.py").write_text(WRITER)
    found = audit([str(tmp_path)])
    assert (found.findings, found.tests) == ((), 2)
    assert len(audit([str(tmp_path / "tests" / "writer.py")]).findings) == 1
    assert len(audit([str(tmp_path / "lib" / "site-packages" / "pkg")]).findings) == 1


def test_what_cannot_be_parsed_or_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("torch.save(state, path) print 'x'")
    (tmp_path / "null.py").write_bytes(b"save(\0")
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n" + WRITER.encode())
    found = audit([str(tmp_path)])
    assert len(found.unparsed) == 2
    assert len(found.findings) == 1
    with pytest.raises(UsageError, match="no such file"):
        audit([str(tmp_path / "nothing")])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text(WRITER)
    (tmp_path / "secret.py").chmod(0)
    assert len(audit([str(tmp_path)]).unread) == 1


def test_pipes_and_links_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    assert audit([str(tmp_path)]).files == 0
