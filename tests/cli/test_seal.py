from __future__ import annotations

from pathlib import Path

from tests.cli.command import prune
from tests.publish.looking import manifests


def test_it_says_what_was_sealed_and_ends_with_zero(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair
    done = prune("seal", "--primary", primary, "--mirror", mirror)
    assert done.code == 0
    assert "20 sealed, 0 already" in done.out
    assert len(manifests(primary)) == len(manifests(mirror)) == 10
    again = prune("seal", "--primary", primary, "--mirror", mirror)
    assert "0 sealed, 20 already" in again.out


def test_damage_is_refused_and_ends_with_five(pair: tuple[Path, Path]) -> None:
    primary, _ = pair
    (primary / "step_0050.pt").write_bytes(b"")
    done = prune("seal", "--primary", primary, "--json")
    assert done.code == 5
    (run,) = done.json["runs"]
    assert [(each["step"], each["health"]) for each in run["refused"]] == [(50, "broken")]
    assert len(run["sealed"]) == 9


def test_a_mirror_out_of_reach_ends_with_three(pair: tuple[Path, Path], tmp_path: Path) -> None:
    done = prune("seal", "--primary", pair[0], "--mirror", tmp_path / "unmounted")
    assert done.code == 3
    assert "BLOCKED" in done.out


def test_steps_and_sidecars_may_be_asked_for(pair: tuple[Path, Path]) -> None:
    primary, _ = pair
    assert prune("seal", "--primary", primary, "50", "--sidecar").code == 0
    assert (primary / "step_0050.pt.sha256").exists()
    assert manifests(primary) == ["step_0050.pt.json"]
    assert prune("seal", "--primary", primary, "51").code == 2
    assert prune("seal", "--primary", primary, "fifty").code == 2
