"""History on PostgreSQL: the same promises as on SQLite, and those of a server that many share and that can go away."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from prune import logs
from prune.errors import UsageError
from prune.journal import Event, Journal, open_journal
from prune.journal.base import GENESIS, link
from prune.model import Health, Identity, Verdict
from tests.journal.server import PostgresServer, needs_postgres

pytestmark = needs_postgres

COPY = Identity(1, 2, 3, 4, 5, 6)


def event(number: int, run: str = "tiny", kind: str = "pass", **data: object) -> Event:
    return Event(number, run, kind, number, "primary", "plan", dict(data))


def opened(url: str, *, write: bool = True) -> Journal:
    journal = open_journal(url, write=write)
    assert journal.trouble is None, journal.trouble
    return journal


def test_what_was_added_is_told_newest_first_by_run_step_and_kind(url: str) -> None:
    journal = opened(url)
    journal.add([event(1), event(2, kind="deleted", why="no rule keeps it"), event(3, run="big")])
    assert [e.at_ns for e in journal.history()] == [3, 2, 1]
    assert [e.at_ns for e in journal.history("tiny")] == [2, 1]
    assert journal.history("tiny", step=2)[0].data == {"why": "no rule keeps it"}
    assert [e.at_ns for e in journal.history(kinds=("deleted", "gone"))] == [2]
    assert [e.at_ns for e in journal.history(limit=1)] == [3]
    assert journal.broken_link() is None


def test_names_that_databases_refuse_come_back_as_they_were(url: str) -> None:
    journal = opened(url)
    odd = "a\udcff\0'\"\\%é"
    journal.add([Event(1, odd, "deleted", data={"paths": [odd]})])
    journal.verified(odd, (odd,), COPY, Verdict(Health.BROKEN, odd), 9)
    assert journal.trouble is None
    assert journal.history(odd) == [Event(1, odd, "deleted", data={"paths": [odd]})]
    assert journal.evidence(odd, (odd,), COPY) == (Verdict(Health.BROKEN, odd), 9)
    assert journal.broken_link() is None


def test_a_content_check_is_remembered_for_exactly_that_copy(url: str) -> None:
    journal = opened(url)
    journal.verified("/r", ("a",), COPY, Verdict(Health.INTACT), 1)
    journal.verified("/r", ("a",), COPY, Verdict(Health.BROKEN, "cut"), 2)
    assert journal.evidence("/r", ("a",), COPY) == (Verdict(Health.BROKEN, "cut"), 2)
    assert journal.evidence("/r", ("a",), Identity(1, 2, 3, 4, 5, 7)) is None
    assert journal.evidence("/s", ("a",), COPY) is None


def test_an_edited_entry_breaks_the_chain_and_a_removed_one_too(url: str, server: PostgresServer) -> None:
    journal = opened(url)
    journal.add([event(number) for number in range(1, 6)])
    assert journal.broken_link() is None
    server.run("UPDATE prune_events SET data = '{\"who\": 1}' WHERE step = 3", url)
    assert "entry 3 " in (journal.broken_link() or "")
    server.run("DELETE FROM prune_events WHERE step = 3", url)
    assert "entry 4 " in (journal.broken_link() or "")


def test_reading_makes_no_tables(url: str, server: PostgresServer) -> None:
    journal = opened(url, write=False)
    assert journal.history() == []
    assert journal.evidence("/r", ("a",), COPY) is None
    assert journal.trouble is None
    assert server.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", url) == "0"


def test_a_newer_schema_is_left_alone(url: str, server: PostgresServer) -> None:
    server.run("CREATE TABLE prune_schema (version_num text); INSERT INTO prune_schema VALUES ('9999')", url)
    journal = open_journal(url, write=True)
    assert "newer version" in (journal.trouble or "")
    journal.add([event(1)])
    assert "newer version" in (journal.trouble or "")
    assert server.run("SELECT count(*) FROM pg_tables WHERE tablename = 'prune_events'", url) == "0"


def test_the_migrations_make_the_tables_that_are_used(url: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import create_engine

    from prune.journal.migrate import config
    from prune.journal.tables import KNOWN, METADATA, SCHEMA, VERSION_TABLE

    opened(url)
    assert ScriptDirectory.from_config(config()).get_heads() == [SCHEMA]
    assert SCHEMA in KNOWN
    with create_engine(url.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


def test_many_hosts_may_make_the_tables_at_once(url: str) -> None:
    code = "import sys; from prune.journal import open_journal; sys.exit(open_journal(sys.argv[1], write=True).trouble)"
    racers = [subprocess.Popen([sys.executable, "-c", code, url], stderr=subprocess.PIPE) for _ in range(4)]
    assert [(racer.wait(60), racer.stderr.read()) for racer in racers if racer.stderr] == [(0, b"")] * 4


def test_the_chain_stays_one_line_under_many_writers(url: str) -> None:
    """Threads of this process and other processes, all at once."""
    code = (
        "import sys; from prune.journal import Event, open_journal; j = open_journal(sys.argv[1], write=True)\n"
        "for n in range(40): j.add([Event(n, sys.argv[2], 'pass'), Event(n, sys.argv[2], 'deleted')])\n"
        "sys.exit(j.trouble)"
    )
    others = [subprocess.Popen([sys.executable, "-c", code, url, f"other-{n}"]) for n in range(3)]
    journal = opened(url)
    threads = [
        threading.Thread(target=lambda: [opened(url).add([event(number)]) for number in range(40)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.wait(60) for other in others] == [0, 0, 0]
    assert journal.broken_link() is None
    assert len(journal.history()) == 4 * 40 + 3 * 80


def test_no_password_is_ever_told(tmp_path: Path) -> None:
    journal = open_journal(f"postgresql://prune:hunter2@/x?host={tmp_path}", write=True)
    assert journal.trouble is not None
    assert "hunter2" not in journal.trouble + journal.where + logs.masked("hunter2")


@pytest.mark.parametrize("wrong", ["postgresql+asyncpg://h/d", "postgresql://h:port/d", "postgresql://h/d?nonsense=1"])
def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError):
        open_journal(wrong, write=False)


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prune.journal.postgres", None)
    with pytest.raises(UsageError, match=r"(?s)not installed.*pip install 'ckpt-prune\[postgres\]'"):
        open_journal("postgresql://prune:hunter2@h/d", write=True)


# --- a server that goes away ---------------------------------------------------------------------------------


def test_a_killed_server_is_told_and_what_was_not_written_is_written_once_it_is_back(
    url: str, server: PostgresServer
) -> None:
    journal = opened(url)
    journal.add([event(1)])
    server.kill()
    journal.add([event(2)])
    assert "1 entries wait" in (journal.trouble or "")
    later = open_journal(url, write=True)
    later.add([event(3)])
    assert "2 entries wait" in (later.trouble or "")
    assert later.history() == []
    server.start()
    later.close()
    again = open_journal(url, write=True)
    assert [e.at_ns for e in again.history()] == [3, 2, 1]
    assert again.broken_link() is None


def test_killed_under_load_and_restarted_nothing_is_lost_doubled_or_out_of_line(
    url: str, server: PostgresServer
) -> None:
    opened(url)
    done = threading.Event()
    counts = [0, 0, 0]

    def write(place: int) -> None:
        journal = open_journal(url, write=True)
        while not done.is_set():
            counts[place] += 1
            journal.add([event(counts[place], run=f"run-{place}")])
            time.sleep(0.01)
        journal.close()

    writers = [threading.Thread(target=write, args=(place,)) for place in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(2):
        time.sleep(0.7)
        server.kill()
        time.sleep(0.3)
        server.start()
    time.sleep(6)  # the moment in which it is left alone is over
    done.set()
    for writer in writers:
        writer.join()
    journal = open_journal(url, write=True)
    journal.close()
    assert journal.broken_link() is None
    for place, count in enumerate(counts):
        told = [e.at_ns for e in journal.history(f"run-{place}")]
        assert sorted(told) == list(range(1, count + 1))


def test_a_server_that_answers_nothing_costs_a_bounded_wait(url: str, server: PostgresServer) -> None:
    journal = opened(url)
    journal.add([event(1)])
    server.pause()
    began = time.monotonic()
    journal.add([event(2)])
    waited = time.monotonic() - began
    assert journal.trouble is not None
    assert waited < 30
    began = time.monotonic()
    assert journal.history() == []  # and it is not waited for again at once
    assert time.monotonic() - began < 1
    server.wake()
    journal.close()
    assert [e.at_ns for e in opened(url).history()] == [2, 1]


def test_a_slow_server_costs_a_bounded_wait_and_no_entry(url: str, server: PostgresServer) -> None:
    journal = opened(url)
    server.run(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(20); RETURN NEW; END $$; "
        "CREATE TRIGGER slow BEFORE INSERT ON prune_events FOR EACH ROW EXECUTE FUNCTION slow()",
        url,
    )
    began = time.monotonic()
    journal.add([event(1)])
    assert time.monotonic() - began < 15
    assert "does not answer in time" in (journal.trouble or "")
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT%'", url)
    server.run("DROP TRIGGER slow ON prune_events", url)
    journal.close()
    assert [e.at_ns for e in opened(url).history()] == [1]
    assert opened(url).broken_link() is None


def test_an_entry_that_was_written_unheard_is_not_written_again(url: str) -> None:
    """The connection may die between the commit and its answer."""
    from prune.journal.postgres import open_postgres

    journal = open_postgres(url, write=True)
    journal.add([event(1)])
    with journal.server.transaction() as connection:
        from sqlalchemy import text

        key = connection.execute(text("SELECT key FROM prune_events")).scalar()
    journal.waiting.keep([(str(key), event(1)), ("another", event(2))])
    journal.add([event(3)])
    assert [e.at_ns for e in journal.history()] == [3, 2, 1]
    assert journal.broken_link() is None


def test_more_than_memory_allows_is_lost_with_a_word(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from prune.journal import postgres, waiting

    monkeypatch.setattr(waiting, "MOST_WAITING", 2)
    journal = postgres.open_postgres(url, write=True)
    journal.waiting.keep([(str(n), event(n)) for n in range(3)])
    journal.add([event(9)])
    assert "1 entries were lost" in (journal.trouble or "")
    assert [e.at_ns for e in journal.history()] == [9, 2, 1]


def test_a_paused_writer_does_not_hold_up_the_others_for_long(url: str, server: PostgresServer) -> None:
    """Its transaction holds the lock of the chain; the server ends it."""
    from prune.journal import postgres

    journal = postgres.open_postgres(url, write=True)
    paused = journal.server.engine.raw_connection()
    paused.cursor().execute(f"SELECT pg_advisory_xact_lock({postgres.HISTORY_LOCK})")
    journal.add([event(1)])
    assert "does not answer in time" in (journal.trouble or "")
    time.sleep(11)
    journal.close()
    assert [e.at_ns for e in journal.history()] == [1]
    with pytest.raises(Exception, match="idle-in-transaction"):
        paused.cursor().execute("SELECT 1")
    paused.invalidate()


def test_the_chain_is_the_one_that_sqlite_makes(url: str, server: PostgresServer) -> None:
    opened(url).add([event(1)])
    assert server.run("SELECT hash FROM prune_events", url) == link(GENESIS, event(1))
