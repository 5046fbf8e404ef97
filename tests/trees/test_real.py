from pathlib import Path

import pytest

from tests.trees.real import EXPECTED, unpack


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_real_tree_holds_every_path_it_is_said_to_hold(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    expected = EXPECTED[name]
    units = [path for paths in expected["units"].values() for path in paths]
    for path in [*units, *expected["pointers"], *expected["foreign"], *expected["partials"]]:
        assert (root / path).exists(), path


def test_times_are_kept_to_the_nanosecond_and_links_stay_links(tmp_path: Path) -> None:
    last = unpack("lightning_last_link", tmp_path) / "lightning_logs/version_0/checkpoints/last.ckpt"
    assert last.is_symlink()
    assert last.lstat().st_mtime_ns == 1795970973380088820
    assert last.parent.lstat().st_mtime_ns == 1795970973380088820
