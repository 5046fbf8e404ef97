"""What the URL of an object-store root names."""

from __future__ import annotations

from dataclasses import dataclass

SCHEMES = ("s3", "gs", "az")


def is_address(root: str) -> bool:
    """Whether a root is in an object store, by its text."""
    return root.partition("://")[0] in SCHEMES and "://" in root


@dataclass(frozen=True, slots=True)
class Address:
    """``scheme://bucket/prefix``; the prefix has no slash at either end and may be empty."""

    scheme: str
    bucket: str
    prefix: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        scheme, _, rest = url.partition("://")
        bucket, _, prefix = rest.strip("/").partition("/")
        return cls(scheme, bucket, prefix.strip("/"))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    def key(self, path: str) -> str:
        """The key of a path below this prefix; ``""`` is the prefix itself."""
        return f"{self.prefix}/{path}".strip("/")

    def below(self, key: str) -> str:
        """The path below this prefix of a key in it."""
        return key[len(self.prefix) + 1 :] if self.prefix else key
