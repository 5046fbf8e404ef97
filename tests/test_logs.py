"""Log lines: on stderr, as loud as asked, and never with a secret in them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prune import logs
from prune.errors import UsageError


@pytest.fixture(autouse=True)
def _as_before():
    yield
    logs.configure()
    logs._secrets.clear()


@pytest.mark.parametrize(
    ("options", "heard"),
    [({}, "WE"), ({"quiet": True}, "E"), ({"verbose": True}, "DIWE"), ({"daemon": True}, "IWE")],
)
def test_lines_are_as_loud_as_asked(options, heard, capsys):
    logs.configure(**options)
    for letter, write in (("D", logs.debug), ("I", logs.info), ("W", logs.warning), ("E", logs.error)):
        write(f"<{letter}>")
    said = capsys.readouterr()
    assert [letter for letter in "DIWE" if f"<{letter}>" in said.err] == list(heard)
    assert said.out == ""


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("s3://key:hunter2@bucket/x", "hunter2"),
        ("postgresql://me:hunter2@db/prune", "hunter2"),
        ("Authorization: Bearer hunter2", "hunter2"),
        ("token=hunter2 and more", "hunter2"),
        ('{"password": "hunter2"}', "hunter2"),
    ],
)
def test_secrets_are_masked(line, secret, capsys):
    logs.warning(line)
    said = capsys.readouterr().err
    assert secret not in said
    assert "***" in said


def test_a_secret_that_was_told_is_masked_wherever_it_stands(capsys):
    logs.hide("opensesame")
    logs.hide("")
    logs.warning("the word is opensesame", path="/opensesame")
    assert "opensesame" not in capsys.readouterr().err


def test_braces_percents_and_odd_bytes_do_no_harm(capsys):
    logs.warning("{} {0} %s", path="a\udcff\n")
    assert "{} {0} %s" in capsys.readouterr().err


def test_a_name_of_several_lines_is_told_in_one_and_obeyed_by_no_terminal(capsys):
    logs.warning("new\nERROR   forged\x1b[2J: 5 steps deleted")
    assert capsys.readouterr().err == "WARNING new\\nERROR   forged\\x1b[2J: 5 steps deleted\n"


def test_an_error_and_its_mend_are_one_line(capsys):
    logs.error(f"not reloaded: {UsageError('there is no run in it', mend='Add a table.')}")
    assert capsys.readouterr().err == "ERROR   not reloaded: there is no run in it: Add a table.\n"


def test_loguru_is_imported_when_the_first_line_is_written():
    code = (
        "import sys; from prune import logs; logs.debug('x'); logs.info('x'); print('loguru' in sys.modules);"
        "logs.warning('x'); print('loguru' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
