"""Loading the newest checkpoint that can be loaded, falling through to older ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from prune.checking import Check, Means
from prune.errors import Damaged
from prune.journal import open_journal
from prune.resume import Notify, StrPath, Terms, Usable, answer, searching, settings_of
from prune.unresumable import none_left

T = TypeVar("T")


@overload
def load_latest(
    root: StrPath,
    load: None = None,
    *,
    mirrors: Sequence[StrPath] = (),
    check: Check = "sha256",
    layout: str = "auto",
    notify: Notify | None = None,
) -> tuple[Any, Usable]: ...


@overload
def load_latest(
    root: StrPath,
    load: Callable[[str], T],
    *,
    mirrors: Sequence[StrPath] = (),
    check: Check = "sha256",
    layout: str = "auto",
    notify: Notify | None = None,
) -> tuple[T, Usable]: ...


def load_latest(
    root: StrPath,
    load: Callable[[str], Any] | None = None,
    *,
    mirrors: Sequence[StrPath] = (),
    check: Check = "sha256",
    layout: str = "auto",
    notify: Notify | None = None,
) -> tuple[Any, Usable]:
    """What ``load`` makes of the newest checkpoint that verifies, and which one that was::

        state, candidate = prune.load_latest("/data/ckpt/tiny", mirrors=["/mnt/mirror/tiny"])

    ``load`` is called with the path that the stack's own loader is given: a file, a directory, a prefix. Without it,
    files are loaded by ``torch.load(path, map_location="cpu", weights_only=True)``, which runs no code out of them.
    When it raises, the next candidate is tried: another replica's copy of that step, then the next older step.

    Arguments and errors are those of :func:`prune.resume`. Raises Damaged, too, when every candidate failed to load;
    its cause is an ExceptionGroup of what the loader raised, newest candidate first.
    """
    settings = settings_of(root, mirrors, layout)
    terms = Terms(Means(check), notify=notify)
    journal = open_journal(settings.state, write=True)
    failures: list[Exception] = []
    tried: list[Usable] = []
    try:
        with searching(settings.runs[0], terms, journal) as search:
            for copy in search.usable():
                candidate = answer(search, copy).candidate
                assert candidate is not None
                try:
                    return (load or _torch_load)(candidate.path), candidate
                except Exception as error:  # whatever a loader raises, an older checkpoint may still load
                    error.add_note(f"while loading {candidate.path}")
                    failures.append(error)
                    tried.append(candidate)
                    search.pass_over(copy, f"the loader raised {type(error).__name__}: {error}")
            if not failures:
                raise none_left(search, journal, min_step=None, expect=False)
    finally:
        journal.close()
    listed = "; ".join(
        f"{candidate.path}: {type(error).__name__}: {error}" for candidate, error in zip(tried, failures, strict=True)
    )
    raise Damaged(
        f"none of {len(failures)} checkpoints could be loaded: {listed}",
        mend="if all fail the same way, look at the loader first",
    ) from ExceptionGroup("no checkpoint could be loaded", failures)


def _torch_load(path: str) -> Any:
    import torch  # type: ignore[import-not-found, unused-ignore]

    return torch.load(path, map_location="cpu", weights_only=True)
