"""How long a request may take, and how often it is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True)
class Patience:
    """How long a request may take and how often it is tried again."""

    timeout_s: float = 120
    connect_s: float = 10
    retries: int = 8
    for_s: float = 180
    first_pause_s: float = 0.2
    longest_pause_s: float = 15

    def client(self) -> dict[str, Any]:
        return {
            "timeout": timedelta(seconds=self.timeout_s),
            "connect_timeout": timedelta(seconds=self.connect_s),
            "user_agent": "ckpt-prune",
        }

    def retry(self) -> dict[str, Any]:
        return {
            "max_retries": self.retries,
            "retry_timeout": timedelta(seconds=self.for_s),
            "backoff": {
                "init_backoff": timedelta(seconds=self.first_pause_s),
                "max_backoff": timedelta(seconds=self.longest_pause_s),
                "base": 2,
            },
        }
