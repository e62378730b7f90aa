"""What CONTRIBUTING says about files and functions is so."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "survival_objectives"


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def files(text: str) -> list[str]:
    """Names of Python files in backticks, without those that have a placeholder."""
    return [name for name in re.findall(r"`([\w./]+\.py)`", text) if "<" not in name]


def found(name: str) -> Path | None:
    return next((base / name for base in (ROOT, PACKAGE) if (base / name).is_file()), None)


def test_files_exist() -> None:
    named = {*files(section("A walk through one fit")), *files(section("How a change travels"))}
    assert len(named) > 20
    # A module of a command may be named without its folder.
    missing = [name for name in named if not found(name) and not found(f"cli/{name}")]
    assert missing == []


def test_functions_of_the_walk_are_in_their_files() -> None:
    pairs = re.findall(r"`([\w./]+\.py)`: `(?:(\w+)\.)?(\w+)`", section("A walk through one fit"))
    assert len(pairs) > 8
    for name, owner, function in pairs:
        path = found(name)
        assert path is not None, name
        text = path.read_text(encoding="utf-8")
        for wanted in filter(None, (owner, function)):
            assert re.search(rf"^\s*(?:def|class) {wanted}\b", text, re.MULTILINE), (name, wanted)


def test_modules_and_names_of_the_guide_exist() -> None:
    plain = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    for module in re.findall(r"adapters/<engine>/(\w+\.py)", plain):
        assert list(ROOT.glob(f"adapters/*/{module}")), module
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("survival_objectives", "adapters")
        for path in (ROOT / folder).rglob("*.py")
    )
    guide = section("How to add an engine") + section("A walk through one refresh of the plugin")
    named = set(re.findall(r"`(?:self\.)?(\w+)(?:\(.*?\))?`", guide))
    assert len(named) > 30
    assert [one for one in named if not re.search(rf"\b{one}\b", code)] == []


def test_there_are_twelve_changes() -> None:
    assert len(re.findall(r"^\| \*\*", section("How a change travels"), re.MULTILINE)) == 12
