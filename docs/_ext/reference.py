"""The API reference: one page per public module, with every name of its ``__all__``.

Pages are written before Sphinx reads its sources, so a new public name is in the reference as soon
as it is in ``__all__``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
PACKAGE = "survival_objectives"
# Modules that users meet first; all others follow by name.
FIRST = (
    PACKAGE,
    f"{PACKAGE}.metrics",
    f"{PACKAGE}.baselines",
    f"{PACKAGE}.datasets",
    f"{PACKAGE}.plots",
    f"{PACKAGE}.adapters.xgboost",
    f"{PACKAGE}.adapters.lightgbm",
    f"{PACKAGE}.adapters.catboost",
    f"{PACKAGE}.censoring",
    f"{PACKAGE}.losses",
    f"{PACKAGE}.marginal",
    f"{PACKAGE}.stacking",
)
# Members of these base classes are documented by their own projects.
FOREIGN = "str, BaseEstimator, Protocol, ABC, UserWarning, ValueError, object"


def source_files() -> Iterator[tuple[str, Path]]:
    """Pairs (dotted name, file) of the public modules, found on disk and not by import."""
    folder = ROOT / PACKAGE
    # A list, as `rglob` alone would not follow the link to the adapters on every Python.
    files = [*folder.rglob("*.py"), *(folder / "adapters").rglob("*.py")]
    for path in sorted(set(files)):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts), path


def public_names() -> dict[str, list[str]]:
    """``__all__`` of every public module that has one, those of `FIRST` first."""
    found = {}
    for module, path in source_files():
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Assign) and "__all__" in map(_name, statement.targets):
                found[module] = list(ast.literal_eval(statement.value))
    order = [*FIRST, *sorted(set(found) - set(FIRST))]
    return {module: found[module] for module in order if found.get(module)}


def _name(target: ast.expr) -> str | None:
    return target.id if isinstance(target, ast.Name) else None


def page(module: str, names: list[str], homes: dict[int, str]) -> str:
    """The reference of a module; ``homes`` says where an object has been described before."""
    loaded = importlib.import_module(module)
    summary = inspect.getdoc(loaded) or ""
    lines = [f".. _{module}:", "", module, "=" * len(module), "", _first_paragraph(summary), ""]
    lines += [f".. currentmodule:: {module}", ""]
    for name in sorted(names, key=lambda name: (not name.endswith("Boost"), name.lower())):
        value = getattr(loaded, name)
        home = homes.setdefault(id(value), f"{module}.{name}")
        if home == f"{module}.{name}" or not callable(value):
            lines += _described(name, value)
        else:
            lines += [f"{name}", "-" * len(name), "", f"The same as :py:obj:`{home}`.", ""]
    return "\n".join(lines)


def _first_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())


def _described(name: str, value: Any) -> list[str]:
    lines = [name, "-" * len(name), ""]
    if inspect.isclass(value):
        lines += [f".. autoclass:: {name}", "   :members:"]
        lines += [f"   :inherited-members: {FOREIGN}"]
    elif inspect.isroutine(value):
        lines += [f".. autofunction:: {name}"]
    else:
        # The docstring of a value is that of its class, which says nothing about the value.
        lines += [f".. py:data:: {name}", "", f"   ``{_shown(value)}``"]
    return [*lines, ""]


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."


def write(app: Sphinx, config: Any) -> None:
    """Write the pages into ``generated/api`` where they changed."""
    del config
    folder = Path(app.srcdir) / "generated" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    homes: dict[int, str] = {}
    pages = {
        f"{module}.rst": page(module, names, homes) for module, names in public_names().items()
    }
    for old in folder.glob("*.rst"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        # An unchanged file keeps its date, so that a second build reads only what is new.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def is_routing(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Whether a member is what scikit-learn adds to any estimator: those are left out."""
    del app, what, obj, skip, options
    added = {"get_metadata_routing", "get_params", "set_params"}
    return True if name in added or name.endswith("_request") else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before the sources are collected."""
    app.connect("config-inited", write)
    app.connect("autodoc-skip-member", is_routing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
