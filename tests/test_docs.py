"""The documentation: its code runs, its equations are those of the code, its reference is whole."""

from __future__ import annotations

import importlib
import io
import re
import shlex
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from markdown_blocks import Block, python_blocks, run_block, run_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if not path.relative_to(DOCS).parts[0].startswith(("_", "generated", "jupyter_execute"))
)
CODE = [page for page in PAGES if any(not block.needs for block in python_blocks(page))]
NEEDY = [(page, block) for page in PAGES for block in python_blocks(page) if block.needs]


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with mpl.rc_context({"backend": "Agg"}):
        yield
    plt.close("all")


# ------------------------------------------------------------------------------------------ code
@pytest.mark.parametrize(
    "page",
    [page for page in CODE if page.stem != "cli"],
    ids=[name_of(p) for p in CODE if p.stem != "cli"],
)
def test_code_of_a_page_runs(page: Path) -> None:
    run_page(page)


@pytest.mark.parametrize(
    ("page", "block"), NEEDY, ids=[f"{name_of(page)}-{block.needs}" for page, block in NEEDY]
)
@pytest.mark.filterwarnings("default")  # Not our packages; their warnings are not ours to mend.
def test_code_that_needs_a_package_runs(page: Path, block: Block) -> None:
    pytest.importorskip(str(block.needs))
    run_block(block, page, {"__name__": page.stem})


def test_commands_of_the_command_line_page_run() -> None:
    from survival_objectives.cli import main

    page = DOCS / "cli.md"
    text = page.read_text(encoding="utf-8")
    before, after = python_blocks(page)
    namespace = {"__name__": "cli"}
    run_block(before, page, namespace)
    commands = "".join(re.findall(r"^```bash\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))
    lines = commands.replace("\\\n", " ").splitlines()
    assert len(lines) == 7
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "survival-objectives"
        assert main([*arguments, "--quiet"]) == 0, line
    run_block(after, page, namespace)
    assert Path("curves.csv").exists()
    assert ";" in Path("rounded.csv").read_text().splitlines()[0]


def test_every_command_and_option_is_on_the_command_line_page() -> None:
    from survival_objectives.cli._main import _parser

    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    (commands,) = (action for action in _parser()._actions if action.dest == "command")
    for name, command in commands.choices.items():
        assert f"`{name}`" in text, name
        for action in command._actions:
            if action.option_strings and action.dest != "help":
                assert f"`{action.option_strings[0]}" in text, (name, action.option_strings)


def test_blocks_are_found_with_their_outputs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Text.\n\n```python\nprint(1)\n```\n\n```text\n2\n```\n\n"
        "<!-- needs: other -->\n\n```python\nimport other\n```\n\n```bash\nls\n```\n"
    )
    first, second = python_blocks(page)
    assert (first.code, first.line, first.output, first.needs) == ("print(1)\n", 4, "2\n", None)
    assert (second.code, second.output, second.needs) == ("import other\n", None, "other")
    with pytest.raises(AssertionError, match=r"page\.md:4"):
        run_page(page)


def test_every_python_fence_is_a_block() -> None:
    for page in PAGES:
        fences = page.read_text(encoding="utf-8").count("```python\n")
        assert len(python_blocks(page)) == fences, name_of(page)


# ------------------------------------------------------------------------------------- equations
def sources() -> Iterator[tuple[str, Path]]:
    """Dotted name and file of every module, the private ones included."""
    package = ROOT / "survival_objectives"
    for path in sorted({*package.rglob("*.py"), *(package / "adapters").rglob("*.py")}):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def words(path: Path) -> str:
    """Comments and strings of a file: where equations are cited."""
    text = path.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = (tokenize.STRING, tokenize.COMMENT)
    return "\n".join(token.string for token in tokens if token.type in kinds)


def test_equations_of_the_code_and_of_the_page_are_the_same() -> None:
    page = (DOCS / "method.md").read_text(encoding="utf-8")
    on_page = [int(number) for number in re.findall(r"^\$\$ \(eq-(\d+)\)$", page, re.MULTILINE)]
    assert len(on_page) == len(set(on_page))
    cited: dict[int, str] = {}
    for module, path in sources():
        # Not preceded by a letter or a bracket: `round(3)` and `P(4)` cite nothing.
        for number in re.findall(r"(?<![\w.)\]^])\(([1-9]\d?)\)", words(path)):
            cited.setdefault(int(number), module)
    assert set(on_page) == set(cited), {n: m for n, m in cited.items() if n not in on_page}


def test_equations_stand_in_the_section_of_their_module() -> None:
    page = (DOCS / "method.md").read_text(encoding="utf-8")
    home = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE):
        module = re.search(r"^\*Module: `([\w.]+)`", section, flags=re.MULTILINE)
        for number in re.findall(r"^\$\$ \(eq-(\d+)\)$", section, flags=re.MULTILINE):
            assert module is not None, number
            home[int(number)] = module[1]
    for module, path in sources():
        # An equation is defined where its number ends the line, set off by spaces.
        for number in re.findall(r"(?:^|\S) {2,}\((\d{1,2})\)$", words(path), flags=re.MULTILINE):
            assert module.startswith(home[int(number)]), (number, module)


def test_equations_that_pages_refer_to_exist() -> None:
    labels = set(
        re.findall(r"\(eq-(\d+)\)$", (DOCS / "method.md").read_text("utf-8"), re.MULTILINE)
    )
    for page in PAGES:
        used = set(re.findall(r"\{eq\}`eq-(\d+)`", page.read_text(encoding="utf-8")))
        assert used <= labels, name_of(page)


def test_formulas_have_their_braces() -> None:
    # The converter to MathML reads `\\frac12` as 12 over what follows.
    for page in PAGES:
        bare = re.findall(r"\\(?:t?frac|hat|tilde|mathrm|text)(?!\{).{9}", page.read_text("utf-8"))
        assert bare == [], name_of(page)


# ------------------------------------------------------------------------------------- reference
@pytest.fixture
def extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))


@pytest.mark.usefixtures("extensions")
def test_reference_finds_every_public_name() -> None:
    pytest.importorskip("sphinx")
    listed = importlib.import_module("reference").public_names()
    for module, path in sources():
        is_private = any(part.startswith("_") for part in module.split(".") if part != "__init__")
        name = module.removesuffix(".__init__")
        if not is_private and re.search(r"^__all__ = ", path.read_text("utf-8"), re.MULTILINE):
            assert sorted(listed[name]) == sorted(importlib.import_module(name).__all__), name


# ------------------------------------------------------------------------------------------ links
def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if link.startswith("http"):
                continue
            target = page.parent / link.replace("generated/notebooks", "../notebooks")
            assert target.exists(), f"{name_of(page)}: {link}"


def test_every_page_is_in_the_contents() -> None:
    contents = " ".join(
        block
        for page in PAGES
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    )
    entries = contents.split()
    for page in PAGES:
        stems = (page.stem, f"{page.parent.name}/{page.stem}")
        globbed = page.stem.startswith("cl") and "cl*" in entries
        is_home = page == DOCS / "index.md"
        assert is_home or globbed or set(stems) & set(entries), name_of(page)


def test_pictures_are_drawn_by_the_script(tmp_path: Path) -> None:
    script = DOCS / "figures" / "make_figures.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=300)
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {path.name for path in script.parent.glob("*.png")}
    used = re.findall(r"figures/(\w+\.png)", "".join(page.read_text("utf-8") for page in PAGES))
    assert drawn == set(used)


@pytest.mark.usefixtures("extensions")
def test_results_are_taken_over_with_their_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sphinx")
    outside = importlib.import_module("outside")
    monkeypatch.setattr(outside, "ROOT", tmp_path)
    monkeypatch.setattr(outside, "RESULTS", tmp_path / "benchmarks" / "RESULTS.md")
    assert "benchmarks/results" in outside.results_text()  # Where to look if there is no page.
    (tmp_path / "benchmarks").mkdir()
    outside.RESULTS.write_text(
        "# Title\n\nSee [raw](results/a.json), [site](https://example.org), [b](../README.md).\n"
        "![p](results/p.png)\n"
    )
    text = outside.results_text()
    assert "Title" not in text
    assert "raw (`benchmarks/results/a.json`), [site](https://example.org), b (`README.md`)" in text
    assert outside.results_pictures() == ["results/p.png"]
    outside.RESULTS.write_text(
        "# Title\n\nBegin.\n\n## Pages\n\n- [B](results/b.md)\n- [A](results/a.md): why\n\n"
        "## More\n\nEnd.\n"
    )
    (tmp_path / "benchmarks" / "results").mkdir()
    (tmp_path / "benchmarks" / "results" / "a.md").write_text("# A\n\nSee [it](../RESULTS.md).\n")
    (tmp_path / "benchmarks" / "results" / "b.md").write_text("# B\n\n![p](../figures/p.svg)\n")
    pages = outside.results_pages()
    assert list(pages) == ["opening.md", "part01.md", "part02.md"]
    assert pages["opening.md"].strip() == "Begin.\n\n## More\n\nEnd."
    assert pages["part01.md"] == "# B\n\n![p](../figures/p.svg)\n"
    assert pages["part02.md"] == "# A\n\nSee it (`benchmarks/RESULTS.md`).\n"
    assert outside.results_pictures() == ["figures/p.svg"]


# ------------------------------------------------------------------------------------------ build
@pytest.mark.usefixtures("extensions")
def test_site_builds_without_warnings(tmp_path: Path) -> None:
    for package in ("sphinx", "myst_nb", "numpydoc", "pydata_sphinx_theme", "sphinx_copybutton"):
        pytest.importorskip(package)
    built = tmp_path / "site"
    # A process of its own: Sphinx changes global state, and imports engines under its own settings.
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", DOCS, built],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    pages = {
        path.relative_to(built).as_posix(): path.read_text("utf-8")
        for path in built.rglob("*.html")
    }
    fetched = [
        (page, address)
        for page, text in pages.items()
        for address in re.findall(
            r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+)"', text
        )
    ]
    assert fetched == []  # The site can be read without a network.
    assert "(13)</a>" in pages["method.html"]
    for module, names in importlib.import_module("reference").public_names().items():
        page = pages[f"generated/api/{module}.html"]
        for name in names:
            # An object that has its home on another page is only named here.
            assert f'id="{module}.{name}"' in page or f"<h2>{name}<" in page, f"{module}.{name}"


@pytest.mark.parametrize("word", ["confidence", "uncertainty", "interval", "band"])
def test_search_words_are_in_the_title_of_their_page(word):
    """The site's search puts pages with the word in their title first."""
    titles = {path.name: path.read_text("utf-8").partition("\n")[0] for path in DOCS.rglob("*.md")}
    found = [name for name, title in titles.items() if re.search(rf"\b{word}s?\b", title, re.I)]
    assert found == ["how_sure.md"]
