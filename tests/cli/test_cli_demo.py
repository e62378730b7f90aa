import re

import pytest

from survival_objectives import __version__
from survival_objectives.cli import main


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # The demo leaves its report behind.


def test_demo_compares_every_engine_with_the_marginal_curve(capsys, tmp_path):
    assert main(["demo", "--rounds", "15"]) == 0
    printed = capsys.readouterr().out
    header, line = re.findall(r"^ +better.*|^Brier score  .*", printed, re.MULTILINE)
    names = re.findall(r"HazardBoost \(\w+\)|Aalen-Johansen|Cox", header)
    scores = dict(zip(names, map(float, re.findall(r"0\.\d+", line)), strict=True))
    for name in ("lightgbm", "xgboost", "catboost"):
        assert scores[f"HazardBoost ({name})"] < 0.9 * scores["Aalen-Johansen"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "COVID-19" in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_demo_replaces_its_own_report_only(capsys, tmp_path):
    report = tmp_path / "page.html"
    arguments = ["demo", "--rounds", "2", "--out", "page.html", "--quiet"]
    report.write_text("<title>Someone else's page</title>")
    assert main(arguments) == 1
    assert "'page.html' exists already" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0
    first = report.read_bytes()
    assert main([*arguments, "--seed", "1"]) == 0
    assert capsys.readouterr().err == ""
    assert report.read_bytes() != first


def test_demo_without_any_engine_names_the_extra(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["demo"]) == 1
    assert "pip install xgboost" in capsys.readouterr().err


def test_bad_number_of_rounds_is_one_line_and_exit_code_2(capsys):
    assert main(["demo", "--rounds", "0"]) == 2
    assert capsys.readouterr().err == "survival-objectives: error: --rounds is 0; use 1 or more\n"


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.strip() == __version__
