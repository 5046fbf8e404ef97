"""The frame around all commands: help, errors, exit codes, pipes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from prune.cli.exits import BLOCKED, DAMAGE, FAILED, NOT_REACHED, run, worst
from prune.cli.verbs import VERBS
from tests.cli.command import prune
from tests.trees import build

MAIN = [sys.executable, "-c", "from prune.cli import main; main()"]


def test_help_lists_every_verb():
    done = prune("--help")
    assert done.code == 0
    assert [verb for verb in VERBS if f"\n  {verb} " not in done.out] == []


def test_help_imports_no_command():
    code = (
        "import sys\nfrom prune.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith(('prune.cli.plan', 'prune.engine', 'prune.model',"
        " 'rich', 'loguru', 'pydantic'))], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_an_unknown_command_is_refused_with_the_nearest():
    done = prune("aply")
    assert done.code == 2
    assert "'apply'" in done.err


@pytest.mark.parametrize(
    "args",
    [
        ("plan", "--no-such-option"),
        ("plan", "--primary", "/"),
        ("plan", "--primary", "."),
        ("plan", "--primary", "x", "--keep-last", "3x"),
        ("plan", "--primary", "x", "--keep-best", "loss"),
        ("plan",),
        ("apply", "nowhere.json"),
        ("apply", "--primary", "x", "--wait", "soon"),
        ("apply", "--primary", "x", "--shard", "0/2"),
        ("apply", "--primary", "x", "--metrics-file", ""),
        ("plan", "--primary", "x", "--out", ""),
        ("plan", "--primary", "x", "--out", "-"),
        ("pin", "10", "--primary", "x", "--until", ""),
        ("pin", "notastep", "--primary", "x"),
        ("init", "nowhere"),
    ],
)
def test_bad_usage_ends_with_two_and_a_sentence(args, tmp_path):
    (tmp_path / "here/prune.toml").write_text("[[runs]]\n") if args == ("plan",) else None
    if args == ("plan", "--primary", "."):
        args = ("plan", "--primary", "prune.toml")
        Path("prune.toml").write_text("")
    done = prune(*args)
    assert done.code == 2
    assert done.out == ""
    assert len(done.err) > 20


def test_the_worst_of_several_runs_decides():
    assert worst([0, 1, 3, 4, 5]) == BLOCKED
    assert worst([0, 1, 4, 5]) == FAILED
    assert worst([5, 4]) == NOT_REACHED
    assert worst([0, 5]) == DAMAGE
    assert worst([], attention=True) == 0
    assert worst([], attention=True, strict=True) == 7
    assert worst([1], attention=True, strict=True) == 1


def test_what_nobody_expected_is_a_sentence_too(capsys):
    @click.command()
    def command():
        raise KeyError("sep=s3://user:hunter2@host")

    assert run(command, []) == 1
    said = capsys.readouterr().err
    assert "please report" in said
    assert "Traceback" not in said
    assert "hunter2" not in said


def test_an_input_output_error_names_its_file(capsys):
    @click.command()
    def command():
        Path("/nowhere/at/all").read_text()

    assert run(command, []) == 1
    assert "/nowhere/at/all: No such file" in capsys.readouterr().err


def test_a_closed_pipe_ends_quietly(tmp_path):
    root = build.step_files(tmp_path / "ckpt", range(1, 40))
    line = f"{sys.executable} -c 'from prune.cli import main; main()' plan --primary {root} -v | head -1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "rror" not in done.stderr


def test_a_full_stdout_is_an_error(tmp_path):
    root = build.step_files(tmp_path / "ckpt", range(1, 5))
    with open("/dev/full", "w") as full:
        line = [*MAIN, "plan", "--primary", root, "--json"]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "standard output" in done.stderr


def test_ctrl_c_ends_a_preview_with_130(capsys):
    @click.command()
    def command():
        raise KeyboardInterrupt

    assert run(command, []) == 130


def test_no_colour_reaches_a_pipe(tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    root = build.step_files(tmp_path / "ckpt", range(1, 5))
    assert "\x1b" not in prune("plan", "--primary", root).out


def test_a_terminal_gets_a_table_and_no_colour_when_asked(tmp_path):
    root = build.step_files(tmp_path / "ckpt", range(1, 5))
    for option, colored in (((), True), (("--no-color",), False)):
        line = " ".join(
            [sys.executable, "-c", "'from prune.cli import main; main()'", "plan", "--primary", str(root), *option]
        )
        done = subprocess.run(["script", "-qec", line, "/dev/null"], capture_output=True, text=True)
        assert "keep" in done.stdout
        assert ("\x1b[3" in done.stdout) is colored


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_standard_stream_that_the_caller_closed_stops_no_command_and_harms_no_file(closed, tmp_path):
    primary = build.step_files(tmp_path / "ckpt", range(10, 60, 10))
    before = {path: path.read_bytes() for path in sorted(primary.iterdir())[-2:]}
    words = [*MAIN, "apply", "--yes", "--verbose", "--primary", str(primary), "--keep-last", "2"]
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *words], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert {path: path.read_bytes() for path in primary.iterdir() if path.is_file()} == before
