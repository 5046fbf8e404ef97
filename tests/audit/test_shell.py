from __future__ import annotations

import pytest

from prune.audit.finding import MOVED, POINTER
from prune.audit.shell import audit_shell


def found(source: str) -> list[tuple[int, str, str]]:
    return [(finding.line, finding.writer, finding.target) for finding in audit_shell(source, "job.sh")]


IN_PLACE = [
    ("cp step_1.pt /mnt/mirror/step_1.pt", "cp", "/mnt/mirror/step_1.pt"),
    ("cp -r checkpoint-100 /mnt/mirror/", "cp", "/mnt/mirror/"),
    ('sudo -u me cp "$SRC/model.safetensors" "$DST"', "cp", "$DST"),
    ("srun -n 1 cp $SCRATCH/last.ckpt /data/run/", "cp", "/data/run/"),
    ("rsync -a --inplace checkpoints/ /mnt/mirror/", "rsync --inplace", "/mnt/mirror/"),
    ("rsync --append-verify step_1.pt host:/data/", "rsync --append-verify", "host:/data/"),
    ("cat parts.* > model.safetensors", ">", "model.safetensors"),
    ("zstd -dc < step_5.pt.zst > step_5.pt", ">", "step_5.pt"),
    ("gzip -dc x | tee out/step_5.ckpt >/dev/null", "tee", "out/step_5.ckpt"),
    ("tar czf /mnt/ckpt/step_5.tar.gz ckpt", "tar", "/mnt/ckpt/step_5.tar.gz"),
    ("dd if=/tmp/a of=/data/step_9.ckpt bs=1M", "dd", "/data/step_9.ckpt"),
    ("mv /tmp/step_9.ckpt /data/run/", "mv", "/data/run/"),
    ("mv $SLURM_TMPDIR/step_9.ckpt /data/run/", "mv", "/data/run/"),
    ("wget -q -O model.safetensors https://host/x", "wget", "model.safetensors"),
    ("curl -L https://host/x -o model.safetensors", "curl", "model.safetensors"),
    ("scp host:/data/step_1.pt .", "scp", "."),
    ("if true; then cp a.ckpt b.ckpt; fi", "cp", "b.ckpt"),
    ("X=1 cp a.ckpt \\\n  b.ckpt", "cp", "b.ckpt"),
]

FINE = [
    "rsync -a checkpoints/ /mnt/mirror/",
    "cp a.ckpt b.ckpt.part && mv b.ckpt.part b.ckpt",
    "cp a.ckpt b.new\nsync b.new\nmv b.new b.ckpt",
    "cp -l step_1.pt keep/step_1.pt",
    "cp config.yaml checkpoint-100/config.yaml",
    "mv a/step_9.ckpt b/",
    "python train.py --out ckpt > train.log 2>&1",
    "python train.py 2>&1 | tee logs/checkpoint.log",
    "python train.py > /dev/null",
    "echo saved checkpoint-100 >> notes.txt",
    "# cp a.ckpt b.ckpt",
    "cat <<EOF > job.sh\ncp a.ckpt b.ckpt\nEOF",
    "echo 'an open quote",
    "ls *.pt; rm -f step_1.pt; sha256sum step_1.pt",
]


@pytest.mark.parametrize(("source", "writer", "target"), IN_PLACE)
def test_a_command_that_writes_onto_a_final_name_is_found(source: str, writer: str, target: str) -> None:
    assert [(each[1], each[2]) for each in found(source)] == [(writer, target)]


@pytest.mark.parametrize("source", FINE)
def test_what_shows_nothing_half_is_no_finding(source: str) -> None:
    assert found(source) == []


def test_variables_are_read_as_the_script_sets_them() -> None:
    assert found("CKPT=/data/step_1.pt\nDST=/mnt/mirror\ncp $CKPT $DST") == [(3, "cp", "$DST")]
    assert found("OUT=/data/x.ckpt\nNEW=$OUT.part\ncp a.ckpt ${NEW}\n") == []


def test_the_line_is_that_where_the_command_begins() -> None:
    assert found("#!/bin/bash\n\ntrue\ncp \\\n a.ckpt \\\n b.ckpt\n") == [(4, "cp", "b.ckpt")]


def test_a_pointer_that_is_rewritten_in_place_is_found() -> None:
    (finding,) = audit_shell('echo "$STEP" > "$RUN/latest"', "job.sh")
    assert (finding.target, finding.why) == ("$RUN/latest", POINTER)


def test_a_move_across_file_systems_is_a_copy() -> None:
    (finding,) = audit_shell("mv /dev/shm/step_9.ckpt /data/run/", "job.sh")
    assert finding.why == MOVED
    assert "/data/run/step_9.ckpt.part" in finding.safe
