"""Columns that know the outcome are named in the terminal and in the report."""

import numpy as np


def test_fit_names_leaks_in_the_terminal_and_in_the_report(run, workplace, people):
    status = people["status"]
    people.assign(autopsy=np.where(status == "alive", "", status)).to_csv("leak.csv", index=False)
    arguments = [
        "--duration",
        "time",
        "--event",
        "status",
        "--rounds",
        "2",
        "--test-size",
        "0.3",
        "--threads",
        "1",
    ]
    done = run("fit", "leak.csv", "--out", "new", *arguments, "--quiet")
    assert done.code == 0
    assert "warning: column 'autopsy' seems to contain the outcome: each of its values" in done.err
    assert "leave it out with --drop autopsy" in done.err
    page = (workplace / "new" / "report.html").read_text(encoding="utf-8")
    assert "column &#39;autopsy&#39; seems to contain the outcome" in page
    again = run("fit", "leak.csv", "--out", "newer", *arguments, "--drop", "autopsy", "--no-report")
    assert again.code == 0
    assert "seems to contain" not in again.err
