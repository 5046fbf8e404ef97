"""Where the deployment files are, and their YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"


def documents(path: Path) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return [document for document in yaml.safe_load_all(path.read_text()) if document]
