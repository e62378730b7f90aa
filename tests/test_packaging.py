"""What is installed: layers that import one way, no engine in the core, a complete wheel."""

import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from survival_objectives import __version__

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENGINES = ("xgboost", "lightgbm", "catboost", "numba", "dask", "distributed")
# What the core must do without: the engines, and what other extras bring.
OPTIONAL = (*ENGINES, "matplotlib", "polars", "pyarrow", "h5py", "lifelines", "sksurv", "jinja2")


def run_python(code, *, cwd=None, path=ROOT):
    """Output of a fresh interpreter that imports the package from ``path``."""
    prelude = f"import sys; sys.path.insert(0, {str(path)!r})\n"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", prelude + textwrap.dedent(code)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# --------------------------------------------------------------------------------- who imports whom
LINT = """
    from importlinter.cli import lint_imports
    sys.exit(lint_imports(config_filename={config!r}, no_cache=True))
"""


@pytest.fixture
def copy_of_the_package(tmp_path):
    """The package and its contracts in another place, to be broken."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    ignore = shutil.ignore_patterns("__pycache__", "data")
    shutil.copytree(ROOT / "survival_objectives", tmp_path / "survival_objectives", ignore=ignore)
    return tmp_path


def test_import_contracts_are_kept():
    lint = run_python(LINT.format(config=str(ROOT / "pyproject.toml")), cwd=ROOT)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    n_contracts = len(PYPROJECT["tool"]["importlinter"]["contracts"])
    assert f"Contracts: {n_contracts} kept, 0 broken." in lint.stdout


@pytest.mark.parametrize(
    ("module", "forbidden", "contract"),
    [
        ("losses", "import xgboost", "Only adapters import engines"),
        ("_people/values", "import survival_objectives.losses", "Data flows one way"),
        (
            "adapters/xgboost/_objective",
            "import survival_objectives.adapters.lightgbm",
            "Data flows one way",
        ),
    ],
)
def test_import_contracts_can_fail(copy_of_the_package, module, forbidden, contract):
    source = copy_of_the_package / "survival_objectives" / f"{module}.py"
    source.write_text(f"{source.read_text()}\n{forbidden}\n")
    config = str(copy_of_the_package / "pyproject.toml")
    lint = run_python(LINT.format(config=config), cwd=copy_of_the_package, path=copy_of_the_package)
    assert lint.returncode == 1, lint.stdout + lint.stderr
    assert f"{contract} BROKEN" in lint.stdout


def test_contracts_bind_every_module():
    layers, engines = PYPROJECT["tool"]["importlinter"]["contracts"]
    assert set(engines["forbidden_modules"]) == set(ENGINES)
    assert engines["source_modules"] == ["survival_objectives"]
    assert engines["ignore_imports"] == ["survival_objectives.adapters.** -> *"]
    package = ROOT / "survival_objectives"
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "_arrays", "_version"}
    packages = {path.parent.name for path in package.glob("*/__init__.py")} - {"adapters"}
    adapters = {f"adapters.{path.parent.name}" for path in ROOT.glob("adapters/*/__init__.py")}
    listed = [name for layer in layers["layers"] for name in re.split(" [|:] ", layer)]
    assert sorted(listed) == sorted(modules | packages | adapters)
    assert len(layers["layers"]) <= 16
    assert "ignore_imports" not in layers


# ------------------------------------------------------------------------------- without any engine
BLOCKED = """
    import importlib, pkgutil

    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {blocked!r}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Blocked())
"""


def without(*blocked):
    return textwrap.dedent(BLOCKED.format(blocked=blocked))


def test_the_core_works_without_engines_and_other_extras():
    code = without(*OPTIONAL) + textwrap.dedent(
        """
        import survival_objectives
        for module in pkgutil.walk_packages(
            survival_objectives.__path__, "survival_objectives."
        ):
            if ".adapters." not in module.name:
                importlib.import_module(module.name)
                print(module.name)

        import numpy as np
        from survival_objectives.censoring import KaplanMeierCensoring
        from survival_objectives.stacking import TimeStacker, event_rows
        from survival_objectives._people import check_survival_target
        target = check_survival_target(([0, 1, 2], [1.0, 2.0, 3.0]))
        KaplanMeierCensoring().fit(target)
        event_rows(target, TimeStacker(random_state=0).draw(target))
        """
    )
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    imported = result.stdout.split()
    for name in ("_people", "losses", "marginal", "censoring", "stacking", "_plugin.objective"):
        assert f"survival_objectives.{name}" in imported


def test_importing_the_core_imports_neither_engines_nor_plots():
    result = run_python(
        f"""
        import survival_objectives
        import survival_objectives._plugin.objective, survival_objectives.metrics
        print([name for name in {(*ENGINES, "matplotlib")!r} if name in sys.modules])
        """
    )
    assert result.stdout.strip() == "[]", result.stderr


def test_a_missing_engine_gives_one_line_that_names_the_extra():
    engines = ("xgboost", "lightgbm", "catboost")
    code = without(*ENGINES) + textwrap.dedent(
        f"""
        for engine in {engines!r}:
            try:
                importlib.import_module(f"survival_objectives.adapters.{{engine}}")
            except ImportError as error:
                print(error)
        """
    )
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"{engine} is not installed. Install it with: pip install {engine}"
        + " numba" * (engine == "catboost")
        for engine in engines
    ]
    assert PYPROJECT["project"]["optional-dependencies"].keys() >= set(engines)


# ---------------------------------------------------------------------------------------- the wheel
@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and sdist, built by the backend itself, outside the repository; and what it said."""
    source = tmp_path_factory.mktemp("source") / "repository"
    unwanted = shutil.ignore_patterns(
        ".*", "__pycache__", "*.egg-info", "build", "dist", "catboost_info", "*.ipynb"
    )
    shutil.copytree(ROOT, source, symlinks=True, ignore=unwanted)
    target = tmp_path_factory.mktemp("built")
    backend = PYPROJECT["build-system"]["build-backend"]
    code = (
        f"import {backend} as backend; backend.build_sdist({str(target)!r}); "
        f"backend.build_wheel({str(target)!r})"
    )
    # The backend speaks with warnings of its own: `-W error` is for our code.
    build = subprocess.run(
        [sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False
    )
    assert build.returncode == 0, build.stderr
    return target, build.stdout + build.stderr


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built[0].glob("*.whl")
    return path


def test_the_build_has_no_warnings(built):
    lines = [line for line in built[1].splitlines() if "warning" in line.lower()]
    # Bytecode is no part of a wheel; where PYTHONDONTWRITEBYTECODE is set, setuptools says so.
    assert [line for line in lines if "byte-compiling is disabled" not in line] == []


def test_wheel_and_sdist_pass_the_checks_of_publishing(built, wheel):
    pytest.importorskip("twine")
    files = sorted(str(path) for path in built[0].iterdir())
    assert len(files) == 2
    for command in (["twine", "check", "--strict", *files], ["check_wheel_contents", str(wheel)]):
        check = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, check=False
        )
        assert check.returncode == 0, check.stdout + check.stderr


def test_version_is_the_same_everywhere(wheel):
    assert "version" not in PYPROJECT["project"]  # One source: survival_objectives/_version.py.
    assert wheel.name.split("-")[1] == __version__
    citation = (ROOT / "CITATION.cff").read_text("utf-8").splitlines()
    assert f"version: {__version__}" in citation


def test_wheel_contains_every_module_and_all_data_and_nothing_else(wheel):
    package = ROOT / "survival_objectives"
    wanted = {
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.py", "py.typed", "datasets/data/*", "*/templates/*")
        for path in package.rglob(pattern)
        if path.is_file()
    }
    # `adapters/` stands at the top of the repository, and below the package in the wheel.
    wanted |= {
        f"survival_objectives/{path.relative_to(ROOT).as_posix()}"
        for path in ROOT.glob("adapters/**/*.py")
    }
    assert "survival_objectives/adapters/xgboost/_objective.py" in wanted
    assert "survival_objectives/py.typed" in wanted
    assert any(name.endswith(".csv") for name in wanted)

    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == wanted


def test_wheel_carries_licence_readme_and_extras(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = message_from_bytes(archive.read(name))
        assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(metadata.get_payload()) > 500
    extras = ("xgboost", "lightgbm", "catboost", "all", "plots", "dask", "test", "benchmarks")
    assert set(metadata.get_all("Provides-Extra")) >= set(extras)
    requirements = metadata.get_all("Requires-Dist")
    always = [line for line in requirements if "extra ==" not in line]
    assert not [line for line in always if line.startswith(ENGINES)]
    catboost = [line for line in requirements if line.endswith('extra == "catboost"')]
    assert [line.partition(">")[0] for line in catboost] == ["catboost", "numba"]


def test_wheel_works_away_from_the_repository(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    result = run_python(
        """
        import survival_objectives
        from survival_objectives.adapters.xgboost import IPCWObjective
        print(survival_objectives.__version__)
        print(survival_objectives.__file__)
        print(survival_objectives.adapters.__file__)
        """,
        cwd=tmp_path,
        path=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    version, *files = result.stdout.split()
    assert version == __version__
    assert all(Path(file).is_relative_to(tmp_path) for file in files)


def test_the_check_of_lowest_versions_covers_all_extras_of_users():
    script = (ROOT / ".ci" / "lowest").read_text("utf-8")
    extras = PYPROJECT["project"]["optional-dependencies"]

    def included(name):
        """The extra, and those that it asks for."""
        own = [re.match(r"survival-objectives\[(.*)\]", one) for one in extras[name]]
        inner = [part for found in own if found for part in found[1].split(",")]
        return {name}.union(*map(included, inner))

    tested = set().union(*map(included, re.findall(r"--extra (\w+)", script)))
    for_developers = {"test", "docs", "release", "lint", "benchmarks"}
    assert tested == set(extras) - for_developers


def test_tests_that_the_check_of_lowest_versions_leaves_out_exist():
    script = (ROOT / ".ci" / "lowest").read_text("utf-8")
    left_out = re.search(r"test_\(([\w|]+)\)", script)[1].split("|")
    names = [path.stem for path in (ROOT / "tests").rglob("test_*.py")]
    for beginning in left_out:
        assert any(name.startswith(f"test_{beginning}") for name in names)


def test_adapters_are_one_place_under_two_names():
    link = ROOT / "survival_objectives" / "adapters"
    assert link.is_symlink()
    assert link.readlink() == Path("../adapters")
