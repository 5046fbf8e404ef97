"""A wish to stop is heard once, remembered, and carried out between two steps."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from prune.stop import Stop, stopping_on_signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_only_raises_the_flag(number, code, capfd):
    before = signal.getsignal(number)
    stop = Stop()
    with stopping_on_signals(stop, say="finishing"):
        assert not stop
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop
    assert stop.exit_code == code
    assert capfd.readouterr().err == "finishing\n"
    assert signal.getsignal(number) is before


def test_a_caller_may_ask_too_and_that_is_no_signal():
    stop = Stop()
    stop.request()
    assert stop.requested
    assert stop.exit_code is None


def test_in_another_thread_the_signals_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)

    def inside():
        with stopping_on_signals(Stop()):
            assert signal.getsignal(signal.SIGTERM) is before

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before
