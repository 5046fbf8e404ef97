"""What a signature of trouble is, and the table of those that are known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Trouble(StrEnum):
    """What kind of trouble a line tells of."""

    DAMAGED = "damaged"  # a file is not what was saved
    MISSING = "missing"  # a file that belongs to the checkpoint is not there
    POINTER = "pointer"  # what names the checkpoint leads nowhere
    SAVE = "save"  # a save failed
    STORAGE = "storage"  # the place where checkpoints live does not answer
    OTHER = "other"  # not a checkpoint problem


Near = Literal["", "line", "traceback"]


@dataclass(frozen=True, slots=True)
class Signature:
    """A pattern for a line of a log, and what that line means.

    ``broke`` is what is wrong, ``how`` the likely mechanism. ``near`` says where a checkpoint must be named for the
    line to mean that: nowhere, in the line itself, or in the traceback it ends.
    """

    id: str
    trouble: Trouble
    pattern: re.Pattern[str]
    broke: str
    how: str
    near: Near = ""


CUT = "the save was killed or ran out of room while it wrote, or a copy of the file was cut short"
NEVER = "the file was made and never filled: the save was killed at its start, or the disk was full"
CHANGED = "some bytes are not those that were saved: a write that never reached the disk, two writers, or the disk"
ZEROS = "the file has its length and no content: its blocks never reached the disk (power, node or file server lost)"
PARTIAL = "one of the processes that write a checkpoint together did not finish, or a copy of it left files out"
GONE = "it was deleted, never finished, or the name is wrong"
FULL = "the disk is full, or has no inode left"
OTHER = "the checkpoint itself is not what failed"

_Entry = tuple[str, str, str, str] | tuple[str, str, str, str, Near]

# Entries are (id, pattern, what is wrong, mechanism, near). The texts are those that the libraries raise; where one
# differs between versions the pattern takes all of them. Of several that fit one line, the first is meant.
_DAMAGED: tuple[_Entry, ...] = (
    # torch.save's ZIP and the older stream of pickles (torch/serialization.py, caffe2/serialize/inline_container.cc)
    ("torch-no-directory", r"PytorchStreamReader failed.*(central directory|not a ZIP archive)",
     "the file has no ZIP directory, which torch.save writes last: its end is missing", CUT),
    ("torch-missing-record", r"PytorchStreamReader failed locating file", "a record inside the file is missing", CUT),
    ("torch-bad-record", r"PytorchStreamReader failed", "a record inside the file cannot be read", CHANGED),
    ("torch-cut-stream", r"unexpected EOF, expected [0-9]+ more bytes", "the file ends before what it announces", CUT),
    ("cut", r"unexpected (EOF|end of file)", "the file ends too early", CUT, "traceback"),
    ("torch-bad-magic", r"Invalid magic number; corrupt file|storage has wrong byte size|filename 'storages' not found",
     "the file does not begin as a checkpoint does", ZEROS),
    ("torch-zeros", r"Cannot use ``?weights_only=True`?`? with files saved in the legacy \.tar format",
     "torch takes the file for an ancient format, as it does with one that is nothing but zero bytes", ZEROS),
    ("torch-short-read", r"\[Errno 22\] Invalid argument", "the file is too short to hold a ZIP directory", CUT,
     "traceback"),
    # pickle
    ("web-page", r"invalid load key, '<'", "the file is a web page, not a checkpoint",
     "a download returned an error page, and that was saved"),
    ("pickle-zeros", r"invalid load key, '\\x00'", "the file begins with zero bytes", ZEROS),
    ("pickle-cut",
     r"pickle data was truncated|pickle exhausted before end|could not find MARK|unpickling stack underflow",
     "the pickle in the file ends too early", CUT),
    ("pickle-bad", r"invalid load key, '(?!v')", "the file does not begin as a pickle does", CHANGED),
    ("empty", r"Ran out of input|EOFError: No data left in file", "the file is empty", NEVER, "traceback"),
    # safetensors (safetensors/src/tensor.rs; names in older versions, sentences in newer ones)
    ("safetensors-empty", r"header ?too ?small", "the file is empty or a few bytes long", NEVER),
    ("safetensors-cut", r"incomplete metadata, file not fully covered|MetadataIncompleteBuffer|InvalidHeaderLength|"
     r"invalid header length", "the file is shorter than its header says", CUT),
    ("safetensors-header",
     r"SafetensorError.*header|Header ?TooLarge|InvalidHeader(Start|Deserialization)|InvalidOffset",
     "the file does not begin with a header of safetensors", ZEROS),
    # ZIP, NumPy, HDF5 and Keras
    ("zip-crc", r"Bad CRC-32 for file", "a record inside the file fails its checksum", CHANGED),
    ("zip-cut",
     r"BadZipFile: (File is not a zip file|Truncated|Bad magic number|Bad offset)|not a valid \.?keras (zip )?file",
     "the archive has no directory at its end", CUT),
    ("zlib-cut", r"zlib\.error: Error -[0-9] while decompressing|Compressed file ended before",
     "compressed data in the file end too early", CUT),
    ("npy-cut", r"EOF: reading array (header|data)|could only read [0-9]+ elements|file seems not fully written",
     "the array file is shorter than its header says", CUT),
    ("hdf5-cut", r"truncated file: eof = [0-9]+|bad byte number in an address", "the HDF5 file is cut", CUT),
    ("hdf5-not", r"file signature not found", "the file does not begin as HDF5 does", NEVER),
    ("hdf5-bad", r"(wrong fletcher32|inflate\(\) failed|addr overflow|bad (object header|heap|symbol table|B-tree))",
     "the structure of the HDF5 file is damaged", CHANGED, "traceback"),
    # TensorFlow (core/util/tensor_bundle, core/lib/io/table)
    ("tf-checksum", r"DATA_?LOSS.*checksum|Checksum does not match|corrupted (record|block)",
     "data fail TensorFlow's checksum", CHANGED),
    ("tf-not-a-table", r"not an sstable", "the .index file is cut, or is none", CUT),
    ("tf-cut",
     r"truncated (record|block read)|Read (less|fewer) bytes than requested|file is too short to be an sstable",
     "a file of the checkpoint is shorter than its index says", CUT),
    # Orbax and TensorStore
    ("orbax-incomplete", r"Found incomplete checkpoint at", "the save was never committed", CUT),
    ("tensorstore-damage", r"DATA_LOSS:|OUT_OF_RANGE: Requested byte range", "a data file is cut or damaged", CUT),
    # Hugging Face
    ("hf-load", r"Unable to load weights from pytorch checkpoint file", "the weights cannot be read", CUT),
    ("json-cut", r"JSONDecodeError: (Expecting|Unterminated|Extra data|Invalid control)|is not a valid JSON file",
     "a small file of the checkpoint is empty or cut",
     CUT, "traceback"),
)  # fmt: skip
_MISSING: tuple[_Entry, ...] = (
    ("lfs-pointer", r"invalid load key, 'v'|version https://git-lfs|without having git-lfs installed",
     "the file is a Git LFS pointer, not the checkpoint", "the repository was fetched without its large files"),
    ("tf-missing", r"Failed to find any matching files for|Unsuccessful TensorSliceReader constructor",
     "the files of the checkpoint are missing", PARTIAL),
    ("orbax-metadata", r"No structure could be identified for the checkpoint|Metadata file \(named .*does not exist|"
     r"Found empty checkpoint PyTree metadata|No ArrayMetadata found", "its metadata are missing", PARTIAL),
    ("orbax-gone", r"Checkpoint at .* not found|Requested directory for restore does not exist",
     "the step is not there", GONE),
    ("tensorstore-missing", r"NOT_FOUND: .*(Error opening|manifest|ocdbt|zarr)", "a data file is missing", PARTIAL),
    ("deepspeed-ranks", r"Expected [0-9]+ of '\*_optim_states\.pt' under|zero checkpoints? paths are missing|"
     r"can't find (model states file|.*\.pt files in directory)|Expert checkpoint file not found",
     "the files of some ranks are missing", PARTIAL),
    ("megatron-not-one", r"is not a distributed checkpoint|Cannot infer checkpoint format",
     "the iteration has no metadata.json, which is written last", PARTIAL),
    ("dcp-metadata", r"No such file or directory: '?[^' ]*/\.metadata\b",
     "`.metadata`, which is written last, is missing",
     PARTIAL),
    ("dcp-shard", r"No such file or directory: '?[^' ]*\.distcp", "a shard is missing", PARTIAL),
    ("hf-shard", r"does not appear to have a file named|Error no file named .* found in directory|"
     r"No such file or directory: '?[^' ]*-[0-9]{5}-of-[0-9]{5}\.",
     "a file that the checkpoint's index names is missing",
     PARTIAL),
    ("hf-state", r"No such file or directory: '?[^' ]*(trainer_state\.json|optimizer\.(pt|bin)|scheduler\.(pt|bin)|"
     r"rng_state\w*\.pth|random_states_[0-9]+\.pkl)",
     "a file that is saved late is missing: the save did not finish", CUT),
    ("hf-none", r"No valid checkpoint found in output directory|Can't find a valid checkpoint at",
     "no usable checkpoint is where one was looked for", GONE),
    ("ray-gone", r"reference to a checkpoint that does not exist anymore|CheckpointManagerInitializationError",
     "a checkpoint that Ray's snapshot lists is not there, and Ray starts only when all are", GONE),
    ("gone", r"(Checkpoint|Model) file not found|Checkpoint (directory |path )?\S* (does not exist|not found)|"
     r"File not found: filepath=", "the checkpoint is not there", GONE),
    ("no-such-file", r"No such file or directory", "a file of the checkpoint is missing", PARTIAL, "line"),
)  # fmt: skip
_POINTER: tuple[_Entry, ...] = (
    ("deepspeed-latest", r"Unable to find latest file at|Invalid for universal checkpoint: .* does not exist",
     "the file `latest`, which names the checkpoint, is missing",
     "the first save never finished, or a copy left it out"),
    ("deepspeed-tag", r"assert len\(self\.ckpt_list\) > 0",
     "`latest` names a checkpoint that is not there or has no files",
     "the checkpoint was removed and the pointer stayed"),
    ("megatron-tracker", r"could not find the metadata file|Invalid metadata file|"
     r"No such file or directory: '?[^' ]*latest_checkpointed_iteration\.txt", "the tracker file names no iteration",
     "it is rewritten in place, and that was interrupted, or a copy left it out"),
)  # fmt: skip
_SAVE: tuple[_Entry, ...] = (
    ("disk-full", r"No space left on device|\bENOSPC\b|Errno 28\b", "the disk had no room for the save",
     FULL, "traceback"),
    ("quota", r"Disk quota exceeded|\bEDQUOT\b|Errno 122\b", "the quota had no room for the save",
     "the quota is used up",
     "traceback"),
    ("file-too-large", r"File too large|\bEFBIG\b|Errno 27\b", "the file system or a limit takes no file of that size",
     "a limit on the size of files (ulimit -f, FAT)", "traceback"),
    ("torch-write-failed",
     r"PytorchStreamWriter failed|inline_container\.cc.*(unexpected pos|file write failed)|basic_ios::clear: iostream",
     "torch.save could not write the file to its end", FULL + "; or a quota is used up, or the mount went away"),
)  # fmt: skip
_STORAGE: tuple[_Entry, ...] = (
    ("stale-handle", r"Stale (NFS )?file handle|\bESTALE\b|Errno 116\b", "the file server forgot the file",
     "another host removed or replaced it while it was in use, or the export was made anew", "traceback"),
    ("io-error", r"Input/output error|\bEIO\b|Errno 5\b|Remote I/O error|Errno 121\b",
     "the device or the file server failed to read or write", "the disk, or the way to it, is failing", "traceback"),
    ("mount-gone", r"Transport endpoint is not connected|Errno 107\b|Host is down|Errno 112\b", "the mount is dead",
     "the file server, or the process that serves the mount, went away", "traceback"),
    ("read-only", r"Read-only file system|\bEROFS\b|Errno 30\b", "the file system is read-only",
     "it was mounted so, or the kernel made it so after an error", "traceback"),
    ("damaged-file-system", r"Structure needs cleaning|Errno 117\b|Bad message|Errno 74\b",
     "the file system itself is damaged", "its metadata or checksums do not fit", "traceback"),
)  # fmt: skip
_OTHER: tuple[_Entry, ...] = (
    ("weights-only", r"Weights only load failed",
     "the file holds objects that torch.load builds only where allowed", OTHER),
    ("other-model", r"size mismatch for |Missing key\(s\) in state_dict|Unexpected key\(s\) in state_dict|"
     r"Missing key in checkpoint state_dict|structures do not match|Error\(s\) in loading state_dict",
     "the checkpoint is of another model or configuration", OTHER),
    ("gpu-memory",
     r"(CUDA|HIP|XPU|MPS).{0,20}out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED",
     "the accelerator ran out of memory", OTHER),
    ("gpu", r"CUDA error|device-side assert|CUDNN_STATUS|NVRM: Xid|uncorrectable ECC",
     "the GPU or its driver failed", OTHER),
    ("network", r"\bNCCL (error|WARN)|nccl\w*Error|Watchdog caught collective operation timeout|DistBackendError|"
     r"Connection (reset by|closed by) peer", "a process of the job was lost or did not answer", OTHER),
    ("shared-memory", r"DataLoader worker .* is killed by signal|insufficient shared memory", "a data loader died",
     OTHER),
    ("import", r"ModuleNotFoundError|ImportError|Can't get attribute", "code that is needed is not installed", OTHER),
    ("no-room", r"No space left on device|\bENOSPC\b|Disk quota exceeded|\bEDQUOT\b",
     "a disk or a quota had no room; no checkpoint is named where that was met", OTHER),
    ("permission", r"Permission denied|\bEACCES\b", "this user may not read or write there", OTHER),
    ("loss", r"loss (is|became) nan|nan loss|non-finite (loss|grad)", "the training diverged", OTHER),
)  # fmt: skip


def _table() -> tuple[Signature, ...]:
    kinds = (
        (Trouble.DAMAGED, _DAMAGED),
        (Trouble.MISSING, _MISSING),
        (Trouble.POINTER, _POINTER),
        (Trouble.SAVE, _SAVE),
        (Trouble.STORAGE, _STORAGE),
        (Trouble.OTHER, _OTHER),
    )
    return tuple(_signature(trouble, entry) for trouble, entries in kinds for entry in entries)


def _signature(trouble: Trouble, entry: _Entry) -> Signature:
    id, pattern, broke, how, *near = entry
    return Signature(id, trouble, re.compile(pattern, re.IGNORECASE), broke, how, near[0] if near else "")


SIGNATURES = _table()
# Every line that any of the patterns fits holds one of these words: most lines of a log hold none and are passed over.
WORDS = (
    "err", "fail", "exception", "not ", "n't", "no ", "missing", "invalid", "corrupt", "truncat", "eof", "cannot",
    "unable", "bad ", "stale", "incomplete", "memory", "killed", "signal", "sigterm", "sigkill", "exit", "cancel",
    "due to", "preempt", "evict", "oom", "enospc", "edquot", "efbig", "estale", "eio", "erofs", "eacces", "quota",
    "space left", "file too", "read-only", "denied", "nan", "non-finite", "mismatch", "unexpected", "data_loss",
    "dataloss", "out_of_range", "exhausted", "ran out", "ended before", "header", "offset", "magic", "checksum",
    "sstable", "bytes than", "git-lfs", "assert", "stack underflow", "device", "host is down", "needs cleaning",
    "watchdog", "xid", "uncorrectable", "connection", "does not", "could only", "not fully", "structure", "buffer",
)  # fmt: skip
EMPTY = next(signature for signature in SIGNATURES if signature.id == "empty")

# What ended a process tells how a file came to be cut; by itself it is no checkpoint problem.
KILLED = re.compile(
    r"oom-kill|Out of memory: Killed process|\bKilled\s*\Z|SIGKILL|"
    r"exit(ed)?\W*(with )?(exit)?\s?code\W+(-9|137|143)\b|"
    r"signal (9|15)\b|SIGTERM|DUE TO (TIME LIMIT|PREEMPTION|NODE FAILURE)|CANCELLED AT|\bpreempted\b|\bevicted\b",
    re.IGNORECASE,
)
# A line that ends a traceback: `package.SomeError: text`.
RAISED = re.compile(r"\A\s*(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure)\b(?::|\s*\Z)")
