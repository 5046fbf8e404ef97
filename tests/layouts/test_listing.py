import resource
from collections.abc import Iterator

import pytest

from prune import layouts
from prune.layouts.base import Entry, Kind, Part
from prune.layouts.listing import read_root
from tests.layouts.helpers import Seen, sketch


class Listed:
    """A root that is nothing but a list of names."""

    root = "/listed"

    def __init__(self, names: Iterator[tuple[str, Kind]], error: OSError | None = None) -> None:
        self.names, self.error = names, error

    def scan(self, path: str = "") -> Iterator[Entry]:
        for name, kind in self.names:
            yield Entry(name, kind)
        if self.error:
            raise self.error


def test_what_no_layout_claims_is_counted_and_never_held() -> None:
    names = ((f"step_{n}.pt" if n % 100 == 0 else f"noise_{n}.txt", Kind.FILE) for n in range(300_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = read_root(layouts.get("step-file"), Listed(names), now_ns=0, fresh_ns=0)  # type: ignore[arg-type]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (len(found.view.claims), found.foreign) == (3_000, 297_000)
    assert grown < 20_000  # KiB; holding the names would take four times that


def test_a_listing_that_fails_half_way_is_an_error_not_a_short_listing() -> None:
    names = iter([("step_10.pt", Kind.FILE)])
    with pytest.raises(OSError, match="Stale"):
        read_root(
            layouts.get("step-file"),
            Listed(names, OSError(116, "Stale file handle")),  # type: ignore[arg-type]
            now_ns=0,
            fresh_ns=0,
        )


def test_our_own_folder_is_neither_a_step_nor_foreign(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = sketch(tmp_path_factory.mktemp("run"), ".prune/trash/x", "step_10.pt")
    seen = Seen(root, "step-file")
    assert (seen.steps, seen.listing.foreign) == ([10], 0)


def test_paths_of_claims_are_relative_to_the_root_whatever_the_base(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = sketch(tmp_path_factory.mktemp("run"), "a/checkpoints/step_10.pt", "a/checkpoints/step_20.pt.part")
    (root / "a/checkpoints/best").symlink_to("step_10.pt")
    seen = Seen(root, "step-file", "a/checkpoints")
    assert seen.paths() == {10: ["a/checkpoints/step_10.pt"], 20: ["a/checkpoints/step_20.pt.part"]}
    assert seen.paths(Part.POINTER) == {None: ["a/checkpoints/best"]}
    assert seen.pointers["a/checkpoints/best"].step == 10
