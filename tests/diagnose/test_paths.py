from __future__ import annotations

import pytest

from prune.diagnose.paths import candidates, found_in, names_checkpoint

FOUND = [
    ("OSError: cannot load '/runs/a b/step_0100.pt'", "/runs/a b/step_0100.pt"),
    ("loading /runs/a/step_0100.pt, please wait", "/runs/a/step_0100.pt"),
    ("resume from ./out/checkpoint-500.", "./out/checkpoint-500"),
    ("load (path=/runs/a/epoch=3-step=40.ckpt)", "/runs/a/epoch=3-step=40.ckpt"),
    ("PosixPath('runs/global_step80')", "runs/global_step80"),
    ("opening file:///runs/a/model.safetensors", "/runs/a/model.safetensors"),
    ("No such file: runs/iter_0000100/metadata.json", "runs/iter_0000100/metadata.json"),
    ("reading ckpt-30.data-00000-of-00001", "ckpt-30.data-00000-of-00001"),
    ('"/runs/a/step-100/.metadata"', "/runs/a/step-100/.metadata"),
    ("tag in runs/latest", "runs/latest"),
    ("left step_5.pt.part behind", "step_5.pt.part"),
    ("~/runs/step_5.pt", "~/runs/step_5.pt"),
]

NOT_FOUND = [
    '  File "/opt/lib/python3.11/site-packages/torch/serialization.py", line 1529, in load',
    "PytorchStreamReader failed reading file archive/data.pkl",
    "the latest checkpoint was fine",
    "step 100 of 500",
    "https://example.com/step_5.pt",
    "see /var/log/step-10/train.log",
    """    state = torch.load(f'{out}/step_{step}.pt')""",
    "    path = '%s/step_%d.pt' % (out, step)",
]


@pytest.mark.parametrize(("line", "path"), FOUND)
def test_a_path_of_a_checkpoint_is_found_in_its_line(line: str, path: str) -> None:
    assert path in list(found_in(line))


@pytest.mark.parametrize("line", NOT_FOUND)
def test_code_and_words_are_no_checkpoints(line: str) -> None:
    assert list(found_in(line)) == []


def test_code_that_makes_a_path_of_a_checkpoint_speaks_of_one() -> None:
    assert names_checkpoint("    state = np.load(f'{out}/step_{step}.npy')")


def test_the_path_nearest_above_the_trouble_comes_first() -> None:
    lines = ["saved a/step_1.pt", "loading a/step_2.pt", "Traceback", "EOFError", "removing a/step_3.pt"]
    assert candidates(lines, 4) == ["a/step_2.pt", "a/step_1.pt", "a/step_3.pt"]
    assert candidates(["EOFError in a/step_9.pt", "loading a/step_2.pt"], 1)[0] == "a/step_9.pt"
