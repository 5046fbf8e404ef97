"""Shell scripts: commands that write a checkpoint onto its final name."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prune.audit import words
from prune.audit.finding import COPIED, IN_PLACE, MOVED, POINTER, Finding

_SEPARATORS = frozenset({";", "&&", "||", "|", "&", "(", ")", "|&", ";;"})
_REDIRECTS = frozenset({">", ">>", ">|", "&>"})
_WRAPPERS = frozenset({
    "sudo", "env", "nohup", "nice", "ionice", "time", "timeout", "srun", "exec", "command", "do", "then", "else", "if",
    "while", "until", "!", "{", "stdbuf",
})  # fmt: skip
_WITH_VALUE = frozenset({"-u", "-g", "-n", "-N", "-p", "-A", "-t", "-c", "-J", "-w", "-s", "-k"})  # of sudo, srun, …
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_ELSEWHERE = re.compile(r"(/tmp|/dev/shm|/scratch|/local|/var/tmp|\$\{?(TMPDIR|SLURM_TMPDIR|TMP|SCRATCH|PBS_JOBFS)\b)")
_STEP_NAME = re.compile(r"(checkpoint|ckpt|step|iter|global_step|epoch)[-_=]?[$\d{*]", re.IGNORECASE)
_IN_PLACE_FLAGS = ("--inplace", "--append", "--append-verify")
_DECORATION = re.compile(r"[\w.]*(log|err|out|null)\Z|/dev/.*|&?\d", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Command:
    """One command. ``assigned`` is what it sets: ``NAME=value`` alone on a line, or before a program."""

    line: int
    words: tuple[str, ...]
    redirects: tuple[str, ...]
    assigned: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def operands(self) -> list[str]:
        return [word for word in self.words[1:] if not word.startswith("-")]


def audit_shell(source: str, file: str) -> list[Finding]:
    """Findings in one script. Lines that cannot be split into words are passed over: they are not ours to judge."""
    commands = list(_commands(source))
    found: list[Finding] = []
    known: dict[str, str] = {}
    for at, command in enumerate(commands):
        known.update(_known(command, known))
        for target, writer, why in _writes(command):
            final = not words.is_temporary([_expand(target, known)]) and not _renamed(target, commands[at + 1 :])
            if final and _speaks(command, target, known):
                found.append(Finding(file, command.line, writer, target, why, _safe_form(command, writer, target)))
    return sorted(set(found))


def _writes(command: _Command) -> Iterator[tuple[str, str, str]]:
    """Target, writer and reason of everything a command writes straight onto a name."""
    for target in command.redirects:
        if not _DECORATION.fullmatch(target):
            yield target, ">", POINTER if _is_pointer(target) else IN_PLACE
    operands, last = command.operands, command.operands[-1] if command.operands else ""
    match command.program:
        case "cp" | "install" | "scp" if len(operands) > 1 and not _only_links(command):
            yield last, command.program, COPIED
        case "rsync" if len(operands) > 1 and any(flag in command.words for flag in _IN_PLACE_FLAGS):
            yield last, "rsync " + next(flag for flag in _IN_PLACE_FLAGS if flag in command.words), COPIED
        case "mv" if len(operands) > 1 and _crosses(operands):
            yield last, "mv", MOVED
        case "tee":
            for target in operands:
                yield target, "tee", POINTER if _is_pointer(target) else IN_PLACE
        case "dd":
            for word in command.words[1:]:
                if word.startswith("of="):
                    yield word[3:], "dd", IN_PLACE
        case "tar" if command.words[1:] and re.fullmatch(r"-?[A-Za-z]*c[A-Za-z]*f", command.words[1]):
            yield from ((target, "tar", IN_PLACE) for target in command.words[2:3])
        case "wget" | "curl":
            yield from ((target, command.program, COPIED) for target in _after(command, ("-O", "-o", "--output")))


def _speaks(command: _Command, target: str, known: Mapping[str, str]) -> bool:
    """Whether the target, or what is copied to it, is a checkpoint by its name."""
    copied = command.operands if command.program in ("cp", "rsync", "mv", "scp", "install") else []
    target, *copied = (_expand(text, known) for text in (target, *copied))
    if words.is_other_file(target) or _DECORATION.fullmatch(target.rpartition("/")[2]):
        return False
    if _is_pointer(target):
        return True
    named = [text for text in (target, *copied) if not words.is_other_file(text)]
    return words.is_checkpoint(named) or any(_STEP_NAME.search(text) for text in named)


def _known(command: _Command, known: Mapping[str, str]) -> dict[str, str]:
    """What the variables that a command sets are, as far as the script itself says."""
    pairs = (word.partition("=") for word in command.assigned)
    return {name: _expand(value, known) for name, _, value in pairs}


def _expand(text: str, known: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: known.get(match[1], match[0]), text)


def _is_pointer(target: str) -> bool:
    return target.rpartition("/")[2] in ("latest", "latest_checkpointed_iteration.txt", "latest_universal")


def _renamed(target: str, later: list[_Command]) -> bool:
    """Whether a later command renames what was written."""
    return any(command.program == "mv" and target in command.operands[:-1] for command in later)


def _only_links(command: _Command) -> bool:
    """cp -l and cp -s copy nothing."""
    short = "".join(word[1:] for word in command.words[1:] if re.fullmatch(r"-[A-Za-z]+", word))
    return bool(set(short) & set("ls")) or "--link" in command.words or "--symbolic-link" in command.words


def _crosses(operands: list[str]) -> bool:
    """Whether a move leads from a place that is a file system of its own on most machines to another."""
    start = [match[1] for match in (_ELSEWHERE.match(operand) for operand in (operands[0], operands[-1])) if match]
    return len(start) == 1 and (operands[0].startswith(("/", "$")) or operands[-1].startswith(("/", "$")))


def _after(command: _Command, options: tuple[str, ...]) -> Iterator[str]:
    for option, value in zip(command.words, command.words[1:], strict=False):
        if option in options:
            yield value


def _safe_form(command: _Command, writer: str, target: str) -> str:
    if target.endswith("/") and command.operands:
        target += command.operands[0].rstrip("/").rpartition("/")[2]
    final, part = (f'"{name}"' if "$" in name else shlex.quote(name) for name in (target, f"{target}.part"))
    if writer.startswith("rsync"):
        return (
            f"leave {writer.partition(' ')[2]} away: rsync then writes beside the name and renames; or `prune mirror`"
        )
    if writer in (">", "tee", "dd", "tar"):
        return f"write {part}, sync {part}, mv {part} {final}"
    return f"copy to {part} on the same file system, sync it, mv -T {part} {final}; or `prune mirror`, which checks too"


# --- reading -----------------------------------------------------------------------------------------------------


def _commands(source: str) -> Iterator[_Command]:
    for number, line in _logical_lines(source):
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
            lexer.whitespace_split = True
            tokens = list(lexer)
        except ValueError:
            continue  # an open quote: text over several lines
        yield from _split(number, tokens)


def _logical_lines(source: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, without the texts of here-documents."""
    lines = source.split("\n")
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        while line.endswith("\\") and at + 1 < len(lines):
            at += 1
            line = line[:-1] + " " + lines[at].lstrip()
        yield start + 1, line
        if (heredoc := _HEREDOC.search(line)) is not None:
            while at + 1 < len(lines) and lines[at + 1].strip() != heredoc[2]:
                at += 1
            at += 1
        at += 1


def _split(line: int, tokens: list[str]) -> Iterator[_Command]:
    command: list[str] = []
    redirects: list[str] = []
    waiting = ""
    for token in [*tokens, ";"]:
        if waiting:
            if waiting in _REDIRECTS:
                redirects.append(token)
            waiting = ""
        elif token in _SEPARATORS:
            if command or redirects:
                assigned = itertools.takewhile(_ASSIGNMENT.fullmatch, command)
                yield _Command(line, tuple(_unwrapped(command)), tuple(redirects), tuple(assigned))
            command, redirects = [], []
        elif set(token) <= set("<>|&"):
            waiting = token
            if command and command[-1].isdigit():
                command.pop()  # the descriptor of 2>
        else:
            command.append(token)


def _unwrapped(command: list[str]) -> list[str]:
    """Without assignments and the programs that run others."""
    rest = list(command)
    while rest and (_ASSIGNMENT.fullmatch(rest[0]) or rest[0] in _WRAPPERS):
        wrapper = rest.pop(0)
        while wrapper in _WRAPPERS and rest and (rest[0].startswith("-") or rest[0][:1].isdigit()):
            if rest.pop(0) in _WITH_VALUE and rest:
                rest.pop(0)
    return rest
