"""Ctrl-C in trainings of all engines; `tests/interrupts.py` sends many more signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from interrupts import ENGINES

from survival_objectives._process.running import (
    deliver_interrupt,
    interrupts_held,
    interrupts_open,
)


@pytest.mark.parametrize("engine", ENGINES)
def test_signals_at_random_moments_end_a_training_with_keyboard_interrupt(engine):
    # In a process that has not used OpenMP: its threads do not survive the forks.
    done = subprocess.run(
        [sys.executable, "-m", "tests.interrupts", "--signals", "8", "--engines", engine],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{engine} {{'KeyboardInterrupt': 8}}\n", done.stderr


@pytest.fixture
def ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_end_of_the_outermost_context(ctrl_c):
    passed = []

    def training():
        with interrupts_held():
            with interrupts_held():
                ctrl_c()
            passed.append("inner")

    with pytest.raises(KeyboardInterrupt):
        training()
    assert passed == ["inner"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_is_delivered_once_between_two_calls(ctrl_c):
    with interrupts_held():
        ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            deliver_interrupt()
        deliver_interrupt()


def test_an_open_section_is_interrupted_at_once(ctrl_c):
    passed = []

    def training():
        with interrupts_held(), interrupts_open():
            ctrl_c()
            passed.append("open")

    with pytest.raises(KeyboardInterrupt):
        training()
    assert not passed
