from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prune.diagnose.reading import read
from prune.diagnose.signatures import SIGNATURES, Trouble

LOAD = '  File "/opt/lib/python3.11/site-packages/torch/serialization.py", line 1529, in load'

# The texts that the libraries raised over files and trees that were really cut, zeroed, emptied or thinned out.
SAID = [
    ("torch-no-directory", "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding "
     "central directory"
     ". This is an internal miniz error. If you are seeing this error, there is a high likelihood that your checkpoint "
     "file is corrupted."),
    ("torch-no-directory", "RuntimeError: PytorchStreamReader failed reading zip archive: not a ZIP archive."),
    ("torch-bad-record", "RuntimeError: PytorchStreamReader failed reading file data/8: invalid header or "
     "archive is corrupted"),
    ("torch-missing-record", "RuntimeError: PytorchStreamReader failed locating file data.pkl: file not found"),
    ("torch-cut-stream", "RuntimeError: unexpected EOF, expected 15955 more bytes. The file might be corrupted."),
    ("torch-zeros", "RuntimeError: Cannot use ``weights_only=True`` with files saved in the legacy .tar format. "
     "In PyTorch 2.6"),
    ("torch-bad-magic", "KeyError: \"filename 'storages' not found\""),
    ("torch-bad-magic", "RuntimeError: Invalid magic number; corrupt file?"),
    ("torch-short-read", f"Traceback (most recent call last):\n{LOAD}\nOSError: [Errno 22] Invalid argument"),
    ("empty", f"Traceback (most recent call last):\n{LOAD}\nEOFError: Ran out of input"),
    ("empty", f"Traceback (most recent call last):\n{LOAD}\nEOFError"),
    ("empty", "Traceback (most recent call last):\n  File 'numpy/lib/_npyio_impl.py'\nEOFError: No data left in file"),
    ("pickle-cut", "_pickle.UnpicklingError: pickle data was truncated"),
    ("pickle-zeros", r"_pickle.UnpicklingError: invalid load key, '\x00'."),
    ("pickle-bad", r"_pickle.UnpicklingError: invalid load key, '\xf3'."),
    ("lfs-pointer", "_pickle.UnpicklingError: invalid load key, 'v'."),
    ("web-page", "_pickle.UnpicklingError: invalid load key, '<'."),
    ("safetensors-empty", "safetensors_rust.SafetensorError: Error while deserializing header: header too small"),
    ("safetensors-empty", "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooSmall"),
    ("safetensors-cut", "SafetensorError: Error while deserializing header: incomplete metadata, file not fully "
     "covered"),
    ("safetensors-cut", "SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"),
    ("safetensors-cut", "SafetensorError: Error while deserializing header: invalid header length"),
    ("safetensors-header", "SafetensorError: Error while deserializing header: invalid JSON in header: EOF "
     "while parsing"),
    ("safetensors-header", "SafetensorError: Error while deserializing header: header too large"),
    ("zip-cut", "zipfile.BadZipFile: File is not a zip file"),
    ("zip-crc", "zipfile.BadZipFile: Bad CRC-32 for file 'a.npy'"),
    ("zlib-cut", "zlib.error: Error -5 while decompressing data: incomplete or truncated stream"),
    ("npy-cut", "ValueError: EOF: reading array header, expected 118 bytes got 40"),
    ("npy-cut", "ValueError: Failed to read all data for array. Expected (10000,) = 10000 elements, could only "
     "read 4992 "
     "elements. (file seems not fully written?)"),
    ("hdf5-cut", "OSError: Unable to synchronously open file (truncated file: eof = 401024, sblock->base_addr = 0, "
     "stored_eof = 802048)"),
    ("hdf5-cut", "OSError: Unable to synchronously open file (bad byte number in an address)"),
    ("hdf5-not", "OSError: Unable to synchronously open file (file signature not found)"),
    ("tf-checksum", "DataLossError: Checksum does not match: stored 1234 vs. calculated on the restored bytes "
     "5678 [Op:RestoreV2]"),
    ("tf-not-a-table", "DataLossError: Unable to open table file ckpt-3: DATA_LOSS: not an sstable (bad magic number)"),
    ("tf-missing", "NotFoundError: Unsuccessful TensorSliceReader constructor: Failed to find any matching "
     "files for ckpt-30"),
    ("orbax-incomplete", "ValueError: Found incomplete checkpoint at /runs/a/30."),
    ("orbax-metadata", "FileNotFoundError: No structure could be identified for the checkpoint at /runs/a/30/default."),
    ("tensorstore-damage", "ValueError: OUT_OF_RANGE: Requested byte range [0, 4096) is not valid for value of "
     "size 100"),
    ("tensorstore-missing", 'ValueError: NOT_FOUND: Error opening "zarr" driver: Metadata at "d/" does not exist'),
    ("deepspeed-ranks", "ValueError: Expected 8 of '*_optim_states.pt' under 'ckpt/global_step80' but found 7 "
     "files. Possibly due"),
    ("deepspeed-latest", "[WARNING] Unable to find latest file at ckpt/latest, if trying to load latest "
     "checkpoint please"),
    ("deepspeed-tag", "    assert len(self.ckpt_list) > 0"),
    ("megatron-tracker", "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt"),
    ("megatron-not-one", "CheckpointingException: /ckpt/iter_0000100 is not a distributed checkpoint"),
    ("dcp-metadata", "FileNotFoundError: [Errno 2] No such file or directory: '/runs/a/step-100/.metadata'"),
    ("dcp-shard", "FileNotFoundError: [Errno 2] No such file or directory: '/runs/a/step-100/__0_0.distcp'"),
    ("hf-shard", "FileNotFoundError: No such file or directory: runs/checkpoint-60/model-00002-of-00005.safetensors"),
    ("hf-shard", "OSError: Error no file named model.safetensors found in directory runs/checkpoint-60."),
    ("hf-state", "FileNotFoundError: [Errno 2] No such file or directory: 'runs/checkpoint-90/trainer_state.json'"),
    ("hf-none", "ValueError: Can't find a valid checkpoint at runs/checkpoint-50"),
    ("hf-load", "OSError: Unable to load weights from pytorch checkpoint file for "
     "'runs/checkpoint-5/pytorch_model.bin'"),
    ("json-cut", 'Traceback (most recent call last):\n  File "trainer_callback.py", in load_from_json\n    '
     'open("checkpoint-60/tra'
     'iner_state.json")\njson.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)'),
    ("ray-gone", "CheckpointManagerInitializationError: The run snapshot contains a reference to a checkpoint "
     "that does not "
     "exist anymore (Checkpoint(filesystem=local))."),
    ("gone", "FileNotFoundError: Checkpoint file not found: runs/last.ckpt"),
    ("gone", "RuntimeError: Checkpoint runs/ep1-ba100-rank0.pt does not exist"),
    ("no-such-file", "FileNotFoundError: [Errno 2] No such file or directory: 'runs/step_100.pt'"),
    ("disk-full", "Traceback (most recent call last):\n  torch.save(state, path)\nOSError: [Errno 28] No space "
     "left on device"),
    ("quota", "Traceback (most recent call last):\n  trainer.save_checkpoint()\nOSError: [Errno 122] Disk quota "
     "exceeded"),
    ("file-too-large", "Traceback (most recent call last):\n  torch.save(state, path)\nOSError: [Errno 27] File "
     "too large"),
    ("torch-write-failed", "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0"),
    ("json-cut", "OSError: It looks like the config file at 'a/checkpoint-30/config.json' is not a valid JSON file."),
    ("torch-write-failed", "RuntimeError: basic_ios::clear: iostream error"),
    ("torch-write-failed", "RuntimeError: PytorchStreamWriter failed writing file data/3: file write failed"),
    ("stale-handle", "OSError: [Errno 116] Stale file handle: '/mnt/runs/step_100.pt'"),
    ("io-error", "OSError: [Errno 5] Input/output error: '/mnt/runs/step_100.pt'"),
    ("mount-gone", "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/runs/step_100.pt'"),
    ("read-only", "OSError: [Errno 30] Read-only file system: '/mnt/runs/step_100.pt.part'"),
    ("damaged-file-system", "OSError: [Errno 117] Structure needs cleaning: '/mnt/runs/step_100.pt'"),
    ("cut", "Traceback (most recent call last):\n  restore(checkpoint)\nIOError: unexpected end of file"),
    ("hdf5-bad", "Traceback (most recent call last):\n  File 'h5py/_hl/dataset.py'\nOSError: Can't "
     "synchronously read data "
     "(wrong fletcher32 checksum)"),
    ("tf-cut", "OutOfRangeError: Read less bytes than requested"),
    ("orbax-gone", "FileNotFoundError: Checkpoint at /runs/a/30 not found."),
]  # fmt: skip

OTHER = [
    (
        "gpu-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of",
    ),
    ("gpu", "RuntimeError: CUDA error: device-side assert triggered"),
    ("network", "[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE)"),
    ("other-model", "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for fc.weight"),
    ("weights-only", "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded"),
    ("shared-memory", "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error."),
    ("import", "ModuleNotFoundError: No module named 'flash_attn'"),
    ("no-room", "OSError: [Errno 28] No space left on device: '/tmp/triton/cache'"),
    ("permission", "PermissionError: [Errno 13] Permission denied: '/data/tokens.bin'"),
    ("loss", "FloatingPointError: loss became nan at step 12"),
]

NOTHING = [
    "",
    "step 100 loss 2.1\nstep 110 loss 2.0",
    "saved checkpoint step_100.pt in 3.1 s",
    "ValueError: invalid literal for int() with base 10: 'x'",
    "KeyError: 'input_ids'",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/corpus/train.jsonl'",
    "EOFError: EOF when reading a line",
    "bash: line 3: syntax error near unexpected token `done'",
]


@pytest.mark.parametrize(("expected", "text"), SAID)
def test_what_a_library_says_of_a_broken_checkpoint_is_known(expected: str, text: str) -> None:
    cause = read(text).cause
    assert cause is not None
    assert cause.signature.id == expected
    assert cause.signature.trouble is not Trouble.OTHER


@pytest.mark.parametrize(("expected", "text"), OTHER)
def test_what_is_no_checkpoint_problem_is_told_as_what_it_is(expected: str, text: str) -> None:
    cause = read(text).cause
    assert cause is not None
    assert (cause.signature.id, cause.signature.trouble) == (expected, Trouble.OTHER)


@pytest.mark.parametrize("text", NOTHING)
def test_what_says_nothing_of_checkpoints_has_no_cause(text: str) -> None:
    assert read(text).cause is None


def test_every_signature_is_shown_by_an_example() -> None:
    shown = {expected for expected, _ in (*SAID, *OTHER)}
    assert shown == {signature.id for signature in SIGNATURES}


def test_the_full_disk_is_the_cause_and_the_damage_its_consequence() -> None:
    text = (
        "Traceback (most recent call last):\n  torch.save(state, 'step_100.pt')\nOSError: [Errno 28] No space left on "
        "device\nRuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0\n"
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
    )
    reading = read(text)
    assert reading.cause is not None
    assert reading.cause.signature.id == "disk-full"
    assert {other.signature.id for other in reading.also} == {"torch-write-failed", "torch-no-directory"}


def test_of_several_ranks_the_first_to_tell_is_the_cause() -> None:
    lines = [f"[rank{rank}]: _pickle.UnpicklingError: pickle data was truncated" for rank in range(4)]
    reading = read("\n".join(["starting", *lines]))
    assert reading.cause is not None
    assert (reading.cause.line, reading.also) == (2, ())


def test_a_checkpoint_problem_outweighs_an_earlier_other_one() -> None:
    reading = read("CUDA out of memory, retrying\nzipfile.BadZipFile: File is not a zip file")
    assert reading.cause is not None
    assert reading.cause.signature.id == "zip-cut"


def test_who_ended_the_process_is_kept() -> None:
    for line in (
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T10:00:00 DUE TO TIME LIMIT ***",
        "Memory cgroup out of memory: Killed process 123 (python)",
        "torchrun: exitcode: -9 (pid: 7)",
        "Received SIGTERM",
    ):
        assert read(f"step 1\n{line}\n").killed == line


def test_colours_progress_bars_and_prefixes_hide_nothing() -> None:
    text = "\x1b[31m10%|#  |\r20%|## |\r[rank0]: zipfile.BadZipFile: File is not a zip file\x1b[0m\r\n"
    cause = read(text).cause
    assert cause is not None
    assert cause.text == "zipfile.BadZipFile: File is not a zip file"


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_no_text_is_too_odd_to_read(text: str) -> None:
    read(text)
