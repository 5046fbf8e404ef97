from __future__ import annotations

import textwrap

import pytest

from prune.audit.finding import MOVED, POINTER, TRANSACTION
from prune.audit.python import audit_python


def found(source: str, file: str = "train.py") -> list[tuple[int, str, str]]:
    """Line, writer and target of every finding."""
    findings = audit_python(textwrap.dedent(source), file)
    return [(finding.line, finding.writer, finding.target) for finding in findings]


IN_PLACE = [
    ("import torch\ntorch.save(state, path)", "torch.save", "path"),
    ("import torch as th\nth.save(state, f'{out}/ckpt.pt')", "torch.save", "f'{out}/ckpt.pt'"),
    ("from torch import save\nsave(obj=state, f=path)", "torch.save", "path"),
    ("from safetensors.torch import save_file as put\nput(tensors, 'model.safetensors')", "safetensors.torch.save_file",
     "'model.safetensors'"),
    ("import safetensors.torch\nsafetensors.torch.save_model(model, path)", "safetensors.torch.save_model", "path"),
    ("import numpy as np\nnp.savez(checkpoint_path, **state)", "numpy.savez", "checkpoint_path"),
    ("import pickle\nwith open(ckpt_file, 'wb') as f:\n    pickle.dump(state, f)", "pickle.dump", "ckpt_file"),
    ("with open('model.ckpt', 'wb') as f:\n    f.write(data)", "open", "'model.ckpt'"),
    ("import torch\nwith open(path, 'wb') as f:\n    torch.save(state, f)", "torch.save", "path"),
    ("import torch\nf = open(path, mode='wb')\ntorch.save(state, f)", "torch.save", "path"),
    ("(out / f'epoch{n}.pt').write_bytes(data)", "write_bytes", "out / f'epoch{n}.pt'"),
    ("def save_checkpoint(self):\n    self.last.write_bytes(self.data)", "write_bytes", "self.last"),
    ("import h5py\nwith h5py.File('weights.h5', 'w') as f:\n    f['w'] = w", "h5py.File", "'weights.h5'"),
    ("import pickle\npickle.dump(state, open(ckpt_file, 'wb'))", "pickle.dump", "ckpt_file"),
    ("import zipfile\nzipfile.ZipFile(ckpt_file, 'w')", "zipfile.ZipFile", "ckpt_file"),
    ("import os\nfd = os.open(ckpt_file, os.O_WRONLY | os.O_CREAT)\nos.write(fd, data)", "os.open", "ckpt_file"),
    ("model.save_pretrained(checkpoint_dir)", "model.save_pretrained", "checkpoint_dir"),
    ("model.save_weights('weights.h5')", "model.save_weights", "'weights.h5'"),
    ("path.with_suffix('.ckpt').open('wb').write(data)", "path.with_suffix('.ckpt').open",
     "path.with_suffix('.ckpt')"),
    ("import shutil\nshutil.copyfile(checkpoint, last)", "shutil.copyfile", "last"),
    ("import shutil\nshutil.copytree(src, os.path.join(mirror, 'checkpoint-100'))", "shutil.copytree",
     "os.path.join(mirror, 'checkpoint-100')"),
    ("from x.file_io import PathManager\nPathManager.copy(checkpoints[0], cp)", "x.file_io.PathManager.copy", "cp"),
    ("import shutil\nwith open(ckpt_path, 'wb') as out:\n    shutil.copyfileobj(src, out)", "shutil.copyfileobj",
     "ckpt_path"),
    ("import subprocess\nsubprocess.run(['cp', ckpt_path, mirror])", "subprocess.run: cp", "'$mirror'"),
    ("import os\nos.system(f'rsync --inplace {ckpt} /mnt/mirror/')", "os.system: rsync --inplace", "'/mnt/mirror/'"),
]  # fmt: skip

FINE = [
    # renamed afterwards, in every spelling
    "import torch, os\ntorch.save(state, path + '.new')\nos.replace(path + '.new', path)",
    "import torch, os\nnew = f'{path}.x'\ntorch.save(state, new)\nos.rename(new, path)",
    "import torch\np = out / 'step.pt.x'\ntorch.save(state, p)\np.rename(out / 'step.pt')",
    "import torch\np = out / 'x'\ntorch.save(state, p)\np.replace(out / 'step.pt')",
    "import torch, os\nd = o + '.x'\ntorch.save(a, os.path.join(d, 'a.pt'))\ntorch.save(b, d + '/b')\nos.rename(d, o)",
    "import torch\nwith PathManager.open(n + '.x', 'wb') as f:\n    torch.save(s, f)\nPathManager.rename(n + '.x', n)",
    # temporary by its own name: whoever named it so renames it
    "import torch\ntorch.save(state, tmp_path)",
    "import torch\ntorch.save(state, path + '.part')",
    "import torch, tempfile\nfd, name = tempfile.mkstemp()\ntorch.save(state, name)",
    "import torch, tempfile\nwith tempfile.NamedTemporaryFile() as f:\n    torch.save(state, f)",
    "import os\nmodel.save_pretrained(ckpt + '.new')\nos.replace(ckpt + '.new', ckpt)",
    "import os\nfd = os.open(ckpt_file, os.O_RDONLY)",
    # into memory, into an archive, into a publication
    "import torch, io\nb = io.BytesIO()\ntorch.save(state, b)",
    "import torch\ndef dump(buffer):\n    torch.save(state, buffer)",
    "import torch\nwith archive.open('data.pth', mode='w') as f:\n    torch.save(state, f)",
    "import torch, prune\nwith prune.publish(path) as f:\n    torch.save(state, f)",
    "import torch\nwith atomic_write(path) as f:\n    torch.save(state, f)",
    # a file that somebody else opened
    "import torch\ndef put(obj, f):\n    torch.save(obj, f)",
    # not checkpoints
    "import json\nwith open(os.path.join(checkpoint_dir, 'config.json'), 'w') as f:\n    json.dump(c, f)",
    "with open('train.log', 'w') as f:\n    f.write('saved checkpoint')",
    "import numpy as np\nnp.save('tokens.npy', tokens)",
    "import pickle\nwith open('vocab.pkl', 'wb') as f:\n    pickle.dump(vocab, f)",
    "import shutil\nshutil.copy('config.yaml', checkpoint_dir + '/config.yaml')",
    "state_dict.copy()\nnew = state.replace('checkpoint', 'ckpt')",
    "with open(ckpt_path, 'rb') as f:\n    data = f.read()",
    "import torch\nstate = torch.load(path)",
    "def save_checkpoint(b):\n    return compressor.compress(b)",
    "with open(signal_file_path, 'wb') as f:\n    f.write(b'checkpoint done')",
]


@pytest.mark.parametrize(("source", "writer", "target"), IN_PLACE)
def test_a_write_onto_a_final_name_is_found(source: str, writer: str, target: str) -> None:
    assert [(each[1], each[2]) for each in found(source)] == [(writer, target)]


@pytest.mark.parametrize("source", FINE)
def test_what_shows_nothing_half_is_no_finding(source: str) -> None:
    assert found(source) == []


def test_a_rename_before_the_write_saves_nothing() -> None:
    assert found("import torch, os\nos.replace(path, backup)\ntorch.save(state, path)") == [(3, "torch.save", "path")]


def test_a_rename_in_another_function_saves_nothing() -> None:
    source = """
        import torch, os
        def save(path):
            torch.save(state, path)
        def move(path):
            os.replace(path, final)
    """
    assert found(source) == [(4, "torch.save", "path")]


def test_a_function_whose_callers_all_rename_is_fine() -> None:
    source = """
        import torch, os
        def write(state, path):
            torch.save(state, path)
        def save(path):
            write(state, path + ".x")
            os.replace(path + ".x", path)
    """
    assert found(source) == []
    assert len(found(source + "\n        write(state, 'other.pt')\n")) == 1


def test_a_method_whose_callers_give_it_temporaries_is_fine() -> None:
    source = """
        import torch
        class Saver:
            def _write(self, state, path):
                torch.save(state, path)
            def save(self):
                self._write(state, path=self.tmp_name)
    """
    assert found(source) == []


def test_two_writes_through_one_open_file_are_one_finding() -> None:
    source = "import pickle\nwith open('ckpt.pkl', 'wb') as f:\n    pickle.dump(a, f)\n    pickle.dump(b, f)"
    assert found(source) == [(3, "pickle.dump", "'ckpt.pkl'")]


def test_one_name_for_several_files_is_told_apart_by_line() -> None:
    source = """
        import torch
        with open(os.path.join(tmpdir, "a"), "wb") as f:
            torch.save(a, f)
        with open(final, "wb") as f:
            torch.save(b, f)
    """
    assert found(source) == [(6, "torch.save", "final")]


def test_a_pointer_that_is_rewritten_in_place_is_found() -> None:
    source = "import os\nwith open(os.path.join(save_dir, 'latest'), 'w') as fd:\n    fd.write(tag)"
    (finding,) = audit_python(source, "engine.py")
    assert (finding.line, finding.why) == (2, POINTER)


def test_a_move_may_be_a_copy() -> None:
    (finding,) = audit_python("import shutil\nshutil.move(local_ckpt, checkpoint_path)", "x.py")
    assert finding.why == MOVED


def test_a_transaction_that_moves_from_the_systems_temporary_directory_is_found() -> None:
    source = "def _atomic_save(c, path):\n    with fs.transaction, fs.open(path, 'wb') as f:\n        f.write(c)"
    (finding,) = audit_python(source, "cloud_io.py")
    assert (finding.writer, finding.why) == ("fs.transaction", TRANSACTION)


def test_the_name_of_the_file_tells_what_a_saving_function_writes() -> None:
    source = "with open(filename, 'wb') as f:\n    save_to(state, f)"
    assert found(source, "checkpoint_utils.py") == [(1, "open", "filename")]
    assert found(source, "dataset.py") == []


def test_every_finding_says_why_and_how_it_is_done_safely() -> None:
    for source, writer, _ in IN_PLACE:
        (finding,) = audit_python(source, "x.py")
        assert finding.why
        assert "prune" in finding.safe or "os.replace" in finding.safe, writer


def test_a_source_that_does_not_parse_is_told_as_such() -> None:
    with pytest.raises(SyntaxError):
        audit_python("torch.save(state, path) print 'python 2'", "old.py")


def test_a_context_manager_that_yields_several_names_is_read_like_any_other() -> None:
    lines = ["def f(root, path):", "    with root.parent(path) as (parent, name):", "        fd = open(name, 'rb')"]
    source = "\n".join(lines)
    assert found(source) == []
