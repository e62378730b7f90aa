"""Progress of a training on one line of standard error."""

from __future__ import annotations

import re

from survival_objectives._process import running
from survival_objectives._process.running import Progress


def test_rounds_loss_and_time_left(capsys, monkeypatch):
    seconds = iter([0.0, 2.0, 6.0])
    monkeypatch.setattr(running.time, "monotonic", lambda: next(seconds))
    with Progress(40, "loss") as shown:
        shown.advance(10, 0.5)
        shown.advance(20, 0.25)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    lines = [re.sub(r"\s+", " ", line).strip() for line in err.split("\r")[1:]]
    assert lines == [
        "10/40 rounds loss 0.5000 2 s, 6 s left",
        "30/40 rounds loss 0.2500 6 s, 2 s left",
    ]


def test_nothing_is_written_before_the_first_round(capsys):
    with Progress(40, "loss"):
        pass
    assert capsys.readouterr().err == ""
