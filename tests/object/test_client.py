"""Words, listings and names of object stores, without any server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from prune.model import Kind
from prune.stores.object import tree as trees
from prune.stores.object.address import Address
from prune.stores.object.client import Bucket, Object, bare
from prune.stores.object.listing import Incomplete, everything
from prune.stores.object.tree import Tree
from prune.stores.object.troubles import plainly


class Pages(Bucket):
    """A bucket whose pages a test gives."""

    def __init__(self, *listings: list[list[Object]]) -> None:
        super().__init__(Address("s3", "b"))
        self.listings = list(listings)

    def pages(self, prefix: str, *, after: str | None = None) -> Iterator[list[Object]]:
        yield from self.listings.pop(0)


def found(key: str, modified: int = 100, size: int = 1) -> Object:
    return Object(key, size, modified, f"etag of {key}")


def test_a_listing_ends_when_the_store_has_nothing_after_the_last_key() -> None:
    assert [each.key for each in everything(Pages([[found("a"), found("b")]], []), "")] == ["a", "b"]


def test_an_old_object_after_the_last_key_means_that_the_listing_was_cut() -> None:
    with pytest.raises(Incomplete, match="left out c"):
        list(everything(Pages([[found("a"), found("b")]], [[found("c")]]), ""))


def test_an_object_that_came_since_is_listed_too() -> None:
    pages = Pages([[found("a"), found("b")]], [[found("c", modified=101)]])

    assert [each.key for each in everything(pages, "")] == ["a", "b", "c"]


def test_keys_are_folders_with_the_time_of_their_newest_object() -> None:
    tree = Tree.of(7, [("s/a", found("s/a", 5, 10)), ("s/d/b", found("s/d/b", 9, 20)), ("c", found("c", 1, 30))])

    top = tree.stat("s")
    assert top is not None
    assert (top.kind, top.mtime_ns) == (Kind.DIR, 9)
    assert tree.top.size == 60
    assert tree.top.folders["s"].measure(7).size == 30
    assert tree.stat("x") is None


def test_an_empty_object_of_a_folders_own_name_is_the_folder() -> None:
    for order in (
        [("s", found("s", size=0)), ("s/a", found("s/a"))],
        [("s/a", found("s/a")), ("s", found("s", size=0))],
    ):
        tree = Tree.of(7, order)

        assert tree.top.files == {}
        assert list(tree.top.folders) == ["s"]


def test_another_etag_makes_another_identity() -> None:
    one = Tree.of(7, [("s/a", Object("s/a", 1, 5, "x")), ("s/b", Object("s/b", 1, 5, "y"))])
    two = Tree.of(7, [("s/a", Object("s/a", 1, 5, "x")), ("s/b", Object("s/b", 1, 5, "z"))])

    first, second = (tree.top.folders["s"] for tree in (one, two))
    assert first.measure(7).identity(first.status(7)).ctime_ns != second.measure(7).identity(second.status(7)).ctime_ns
    assert first.digest != second.digest


def test_of_very_many_files_only_the_sums_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MANY", 100)
    objects = ((f"s{step}/{n:03}", found(f"{step}{n}")) for step in range(10) for n in range(100))

    tree = Tree.of(7, objects)

    assert sum(len(folder.files or ()) for folder in tree.top.folders.values()) <= 200
    assert [folder.count for folder in tree.top.folders.values()] == [100] * 10
    assert tree.top.folders["s9"].measure(7).files == 100
    with pytest.raises(KeyError):
        tree.stat("s9/001")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Generic S3 error: Error performing GET https://h/b?X-Amz-Signature=abc in 5ms, after 2 retries, most: 2"
         " - HTTP error: error sending request\n\nDebug source:\nsecret",
         "HTTP error: error sending request (tried 3 times)"),
        ("Error performing PUT https://h/b?sig=abc in 1ms - Server returned non-2xx status code: 403 Forbidden: "
         "<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
         "Server returned non-2xx status code: 403 Forbidden: AccessDenied, no"),
    ],
)  # fmt: skip
def test_troubles_are_told_without_queries_and_innards(said: str, told: str) -> None:
    assert plainly(said) == told


def test_etags_are_compared_without_quotes() -> None:
    assert bare('"abc"') == bare("abc") == "abc"
    assert bare(None) == ""


def test_addresses() -> None:
    address = Address.of("s3://bucket/a/b/")

    assert (address.bucket, address.prefix, str(address)) == ("bucket", "a/b", "s3://bucket/a/b")
    assert (address.key("c/d"), address.below("a/b/c/d"), Address.of("gs://x").key("c")) == ("a/b/c/d", "c/d", "c")


def test_local_roots_import_nothing_of_object_stores(tmp_path: object) -> None:
    code = (
        "import sys\nfrom prune.cli import main\n"
        f"sys.argv = ['prune', 'plan', '--primary', {str(tmp_path)!r}, '--quiet']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if 'obstore' in name or 'stores.object' in name])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.strip().endswith("[]")


def test_without_obstore_the_mend_is_told(tmp_path: object) -> None:
    code = (
        "import sys\nsys.modules['obstore'] = sys.modules['obstore.store'] = None\nfrom prune.cli import main\n"
        "sys.argv = ['prune', 'plan', '--primary', 's3://bucket/run']\nmain()"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert answer.returncode == 2
    assert "ckpt-prune[object]" in answer.stderr
    assert "Traceback" not in answer.stderr
