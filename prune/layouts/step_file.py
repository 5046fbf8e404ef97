"""Plain files with a number: ``step_0810.pt``, ``model-epoch12.safetensors``, ``10000.npz``.

What hand-written training loops make. The name must match in full; what merely contains a number is foreign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prune.layouts import metric_files, naming, series, text_pointers
from prune.layouts.around import SHA256, Around
from prune.layouts.base import (
    Claim,
    Entry,
    Part,
    Pointer,
    RootView,
)

EXTENSIONS = (
    "pt", "pth", "ckpt", "bin", "safetensors", "npz", "npy", "h5", "hdf5", "weights.h5", "keras", "pkl", "pickle",
    "msgpack", "joblib", "gguf", "eqx", "pdparams", "pdopt", "params", "tar", "pt.tar", "pth.tar", "tar.gz", "zip",
)  # fmt: skip
_ENDINGS = tuple(f".{extension}" for extension in EXTENSIONS)

# Words before a number that make it something else than a step: rank_0.pt, model_v2.pt, fold3.pkl, lr1e-05.pt.
_NO_STEP = frozenset({
    "rank", "shard", "part", "chunk", "split", "fold", "seed", "layer", "worker", "gpu", "node", "device", "expert",
    "replica", "stage", "of", "v", "ver", "version", "run", "exp", "experiment", "trial", "task", "lr", "bs",
})  # fmt: skip
_NAME = re.compile(
    r"(?P<prefix>(?:[^.0-9]|[^.].*[^0-9])?)(?<![0-9]\.)(?<![0-9]e-)"
    rf"(?P<step>{naming.DIGITS})"
    r"(?P<tail>(?:[-_,][A-Za-z][A-Za-z0-9_]*=[-+]?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)*)",
    re.DOTALL,
)
_SEPARATED = re.compile(r"(?:.*[-_.=@+, ])?(?P<word>[^\W\d_]*)", re.DOTALL)
_EPOCH = re.compile(r"(?<![A-Za-z])(e(?:p|pochs?)?[-_=]?)[0-9]+", re.IGNORECASE)
_TAIL_VALUE = re.compile(r"=[^-_,]+")
_SHARD = re.compile(r".*[-_][0-9]+-of-[0-9]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StepName:
    """A name read as prefix, number and extension. ``series`` is what it has in common with its siblings."""

    step: int
    series: str


def read(name: str) -> StepName | None:
    """Reads a file name as ``<prefix><number>.<extension>``; None when it is not one, in full."""
    if not name.endswith(_ENDINGS):
        return None
    extension = max((ending for ending in _ENDINGS if name.endswith(ending)), key=len)
    found = read_stem(name[: -len(extension)])
    return found and StepName(found.step, found.series + extension)


def read_stem(stem: str) -> StepName | None:
    """Reads a name without its extension as ``<prefix><number>``, metrics as ``-loss=0.21`` allowed behind."""
    match = _NAME.fullmatch(stem)
    if match is None or naming.prefixed(stem) or _SHARD.fullmatch(stem):
        return None
    prefix = match["prefix"]
    separated = _SEPARATED.fullmatch(prefix)
    if separated is None or _last_word(prefix) in _NO_STEP:
        return None
    shape = _EPOCH.sub(r"\1#", prefix) + _TAIL_VALUE.sub("=#", match["tail"])
    return StepName(int(match["step"]), shape)


def _last_word(prefix: str) -> str:
    """The word that says what the number counts: ``step`` in ``llama7b_step_``."""
    found = _SEPARATED.fullmatch(prefix.rstrip("-_.=@+, "))
    return found["word"].lower() if found else ""


class StepFile(Around):
    name = "step-file"
    title = "a plain training loop"
    weight = 1

    def own(self, entry: Entry) -> Claim | None:
        if entry.path in text_pointers.NAMES:
            return text_pointers.claim(entry)
        found = read(entry.path)
        if found is None:
            return None
        return Claim(entry.path, entry.kind, Part.PAYLOAD, found.step, found.series)

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        return series.settle(claims)

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return series.collision(claims)

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """Payload before its sidecars: a checksum file alone is no checkpoint."""
        return sorted(paths, key=lambda path: (path.endswith(SHA256), path))

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        return text_pointers.pointers(self, view)

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        return metric_files.beside(view)
