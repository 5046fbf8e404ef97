"""Room is asked before anything is listed, and what cannot be read is not room."""

from __future__ import annotations

from prune.room import has_room, space_of
from prune.settings.schema import ReplicaSettings, Share


def replica(root: str, **more) -> ReplicaSettings:
    return ReplicaSettings("primary", root, "primary", **more)


def test_a_size_and_a_share_are_compared_with_what_is_free(tmp_path):
    here = replica(str(tmp_path))
    space = space_of(here)
    assert space is not None
    assert has_room(here, 1)
    assert not has_room(here, space.total_bytes + 1)
    assert has_room(here, Share(100 * space.free_bytes / space.total_bytes / 2))
    assert not has_room(here, Share(100.0))


def test_what_cannot_be_read_is_not_room(tmp_path):
    assert not has_room(replica(str(tmp_path / "unmounted")), 1)
    assert not has_room(replica("s3://bucket/run"), 1)
    assert not has_room(replica(str(tmp_path), free_space="none"), 1)
