"""Helper processes find and remove just what this process would."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prune.stores.crew import Crew
from prune.stores.local import LocalRoot
from prune.stores.measure import Measure
from prune.stores.pace import measure_copy
from tests.ordinary import ordinary_user

ODD = ["plain", "with space", "new\nline", "ünï", os.fsdecode(b"not-utf8-\xff"), "-", "a%20b"]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[LocalRoot]:
    for name in ODD:
        folder = tmp_path / "tree" / name
        (folder / "deep" / "deeper").mkdir(parents=True)
        (folder / "a.bin").write_bytes(b"x" * 5000)
        (folder / "deep" / "deeper" / "b.bin").write_bytes(b"y" * 300)
        os.link(folder / "a.bin", folder / "deep" / "again")
        os.symlink("/etc", folder / "out\nside")
        os.utime(folder / "a.bin", (0, 0))
    with LocalRoot(str(tmp_path / "tree")) as opened:
        yield opened


def told(measure: Measure) -> dict[str, object]:
    return {name: getattr(measure, name) for name in Measure.__mro__[1].__slots__ if name != "inodes"}


def test_a_helper_measures_what_this_process_measures_whatever_the_names(root: LocalRoot) -> None:
    copies = [[name] for name in ODD] + [ODD, ["plain/a.bin"], ["plain/deep/deeper"]]
    with Crew([root]) as crew:
        found = list(crew.each(lambda helper, paths: helper.measure(root, paths), copies))
    for paths, one in zip(copies, found, strict=True):
        assert not isinstance(one, OSError)
        measure, first = measure_copy(root, paths)
        assert told(one[0]) == told(measure)
        assert one[1] == first


def test_numbers_of_inodes_that_mean_nothing_stay_untold(root: LocalRoot) -> None:
    root.keeps_inodes = False
    with Crew([root], size=1) as crew:
        (found,) = crew.each(lambda helper, paths: helper.measure(root, paths), [["plain"]])
    assert found[1].ino == 0


@pytest.mark.parametrize("path", ["gone", "plain/gone/below", "plain/out\nside/passwd", "../escape", "plain/a.bin/x"])
def test_what_cannot_be_looked_at_comes_back_as_its_error_and_the_helper_goes_on(root: LocalRoot, path: str) -> None:
    with Crew([root], size=1) as crew:
        bad, good = crew.each(lambda helper, paths: helper.measure(root, paths), [[path], ["plain"]])
    assert isinstance(bad, OSError)
    with pytest.raises(OSError) as ours:
        measure_copy(root, [path])
    assert (bad.errno, bad.strerror) == (ours.value.errno, ours.value.strerror)
    assert not isinstance(good, OSError)


@pytest.mark.parametrize("name", ODD)
def test_a_helper_removes_all_of_it_and_nothing_that_links_lead_to(root: LocalRoot, name: str) -> None:
    with Crew([root], size=1) as crew:
        removed = crew.helper().remove(root, name)
    assert removed == 4
    assert sorted(os.listdir(root.real)) == sorted(set(ODD) - {name})
    assert os.path.exists("/etc/passwd")


def test_a_helper_that_was_killed_costs_an_error_and_no_answer_is_made_up(root: LocalRoot) -> None:
    with Crew([root], size=1) as crew:

        def killed_first(helper: Any, paths: list[str]) -> tuple[object, str]:
            helper.process.kill()
            helper.process.wait()
            with pytest.raises(OSError) as refused:
                helper.remove(root, paths[0])
            return helper.measure(root, paths), str(refused.value)

        ((found, why),) = crew.each(killed_first, [["plain"]])
    assert isinstance(found, OSError)
    assert why
    assert (Path(root.real) / "plain" / "a.bin").exists()


def test_a_read_only_folder_inside_what_goes_does_not_keep_it(tmp_path: Path) -> None:
    inner = tmp_path / "trash" / "step" / "inner"
    inner.mkdir(parents=True)
    (inner / "a.pt").write_bytes(b"x")
    (inner / "deeper").mkdir()
    for folder in (inner / "deeper", inner, inner.parent):
        folder.chmod(0o555)

    with ordinary_user(), LocalRoot(str(tmp_path)) as root:
        assert root.remove("trash/step") == 1

    assert list((tmp_path / "trash").iterdir()) == []
