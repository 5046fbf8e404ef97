"""Which expressions speak of checkpoints, which of temporaries, and which of neither."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TEMPORARY = frozenset({
    "tmp", "temp", "temporary", "tempfile", "tempdir", "tmpdir", "tmpfile", "tempname", "part", "partial", "staging",
    "staged", "stage", "buffer", "buf", "bytesio", "stringio", "bio", "devnull", "stream", "mkstemp", "mkdtemp",
    "scratch", "pending", "inprogress", "incomplete", "bytesbuffer", "atomic",
})  # fmt: skip
_CHECKPOINT = re.compile(
    r"ckpt|check_?point|state_?dict|optim(izer)?_?state|model_?state|train(er|ing)?_?state|rng_?state|random_?states|"
    r"global_?step|\b(model|weights|optimizer|scheduler)[\w.-]*\.(bin|npz|npy|pkl|pickle)\b|model_?weights|weights_?file|"
    r"\.(pt|pth|ckpt|safetensors|distcp|keras|h5|hdf5|weights\.h5|orbax)\b",
    re.IGNORECASE,
)
_POINTER = re.compile(
    r"\blatest\b|latest_?(universal|check_?point|ckpt|iteration|step)|latest_checkpointed_iteration|tracker|"
    r"last_?(check_?point|ckpt)|checkpoint_manager_snapshot|trainer_state\.json",
    re.IGNORECASE,
)
_ASIDE = frozenset({"signal", "marker", "lock", "sentinel", "flag", "log", "logfile", "logger"})
_OTHER_FILE = re.compile(
    r"\.(json|jsonl|ya?ml|toml|txt|log|csv|tsv|md|html?|png|jpe?g|gif|svg|pdf|py|sh|lock|proto|xml|jinja|ini|cfg|"
    r"tfevents|parquet|arrow|mp4|wav)\Z",
    re.IGNORECASE,
)


def words(text: str) -> set[str]:
    """The words of an identifier or a string: ``tmpCkpt_file.part`` has tmp, ckpt, file and part."""
    return {word.lower() for word in _WORD.findall(text)}


def is_temporary(texts: Iterable[str]) -> bool:
    """Whether any of the names and strings says that this is not the final name."""
    return any(
        word in _TEMPORARY or re.fullmatch(r"(tmp|temp)[a-z]{0,4}", word) for text in texts for word in words(text)
    )


def is_checkpoint(texts: Iterable[str]) -> bool:
    """Whether any of the names and strings speaks of a checkpoint, or of a file that only checkpoints have."""
    return any(_CHECKPOINT.search(text) for text in texts)


def saves_checkpoints(function: str) -> bool:
    """Whether a function's own name says that it writes checkpoints."""
    return (
        is_checkpoint([function])
        or re.search(r"save_?(model|weights|state)|dump_?(model|weights|state)", function) is not None
    )


def is_pointer(texts: Iterable[str]) -> bool:
    """Whether any of them names the small file by which a stack finds its newest checkpoint."""
    return any(_POINTER.search(text) for text in texts)


def is_aside(texts: Iterable[str]) -> bool:
    """Whether it is a small file by which processes signal one another, and no checkpoint."""
    return any(words(text) & _ASIDE for text in texts)


def is_other_file(last: str | None) -> bool:
    """Whether the end of a path says that this is a log, a configuration or a picture."""
    return last is not None and _OTHER_FILE.search(last) is not None
