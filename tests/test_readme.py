"""Every Python block of the README is executed, in one namespace per section."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from survival_objectives.cli._main import _parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def python_blocks(markdown: str) -> dict[str, str]:
    """Python code by the ``##`` section it stands in."""
    blocks: dict[str, str] = {}
    for section in re.split(r"^## ", markdown, flags=re.MULTILINE)[1:]:
        title = section.splitlines()[0]
        code = re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
        if code:
            blocks[title] = "\n".join(code)
    return blocks


def run(section: str) -> dict[str, Any]:
    code = python_blocks(README)[section]
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, f"README.md, {section}", "exec"), namespace)
    return namespace


def check_curves(cif: np.ndarray, shape: tuple[int, ...]) -> None:
    assert cif.shape == shape
    assert cif.min() >= 0
    np.testing.assert_allclose(cif.sum(axis=1), 1, atol=1e-12)


def test_every_section_with_code_is_run_below() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    missing = [section for section in python_blocks(README) if f'run("{section}")' not in source]
    assert missing == []


def test_five_lines() -> None:
    readme = run("Five lines")
    check_curves(readme["curves"], (3, 3, 3))
    assert (np.diff(readme["curves"][:, 0], axis=1) <= 1e-12).all()


def test_plugin() -> None:
    readme = run("In your booster's own training call")
    truth = readme["data"].true.cumulative_incidence(readme["X_test"], readme["times"])
    marginal = truth.mean(axis=0, keepdims=True)
    for name in ("xgboost", "lightgbm", "catboost", "ipcw"):
        cif = readme[f"{name}_cif"]
        check_curves(cif, (500, 4, 3))
        # Closer to each person's true curves than the curves of the average person are.
        assert np.mean((cif - truth) ** 2) < np.mean((marginal - truth) ** 2)
        assert (np.diff(cif[:, 0], axis=1) <= 1e-12).all()


def test_it_can_be_read_in_a_few_minutes() -> None:
    assert len(README.split()) <= 900


def test_table_is_that_of_the_committed_results() -> None:
    spec = importlib.util.spec_from_file_location("readme_table", ROOT / "docs" / "readme_table.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.table() in README
    # The packages that people would pick instead, each with the scores on both data sets.
    for line in script.table().splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert all(re.fullmatch(r"0\.\d{4}", number) for number in cells[1:3]), cells[0]


def test_commands_are_those_of_the_command_line() -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("&&", "\n").splitlines()
    ours = [shlex.split(line)[1:] for line in lines if line.strip().startswith("survival-obj")]
    assert [line[0] for line in ours] == ["demo", "fit", "predict"]
    for arguments in ours:
        _parser().parse_args(arguments)


def test_links_lead_to_files() -> None:
    for document in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "benchmarks/README.md",
    ):
        path = ROOT / document
        links = re.findall(r"\]\(([^)#\s]+)\)", path.read_text(encoding="utf-8"))
        missing = [
            link
            for link in links
            if not link.startswith("http") and not (path.parent / link).exists()
        ]
        assert missing == [], document
