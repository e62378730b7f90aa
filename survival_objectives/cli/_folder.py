"""Model folders of the command line: a saved model, and the schema to read new files for it.

`survival_objectives.load` can read the folder too: it ignores other files.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from survival_objectives._models.storage import METADATA
from survival_objectives._process.files import is_stream
from survival_objectives._version import __version__
from survival_objectives.cli._columns import Column
from survival_objectives.cli._errors import CommandError, listed, suggestion
from survival_objectives.cli._outcomes import Events, FollowUp
from survival_objectives.estimators import HazardBoost, SurvivalBoost, load

REPORT = "report.html"

# Tag at the start of all pages that this package writes.
_MARK = b'<meta name="generator" content="survival-objectives">'
_SCHEMA = "schema.json"
#: Increased when older versions cannot read what this one writes.
_FORMAT = 1


@dataclass(frozen=True)
class Schema:
    """Description of the training file and of the results."""

    follow_up: FollowUp  # Columns of the outcome.
    events: Events  # Meaning of the labels of the event column.
    columns: tuple[Column, ...]  # Columns that the model uses, in its order.
    dropped: dict[str, str] = field(default_factory=dict)  # Unused columns, with the reason.
    people: dict[str, int] = field(default_factory=dict)  # Numbers by state, "censored" first.
    missing: tuple[str, ...] = ()  # Cells that mean missing, besides the usual ones.
    versions: dict[str, str] = field(default_factory=dict)  # Packages used in training.
    assessment: dict[str, Any] = field(default_factory=dict)  # Summary of the held-out scores.
    features: tuple[dict[str, Any], ...] = ()  # What the columns held, one entry per column.
    files: tuple[str, ...] = ()  # Files written to the folder, which a later ``fit`` may replace.

    def to_json(self) -> str:
        """The schema as text for `from_json`."""
        return json.dumps({"format": _FORMAT, "version": __version__, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """The schema that `to_json` wrote."""
        content = json.loads(text)
        if content.pop("format") > _FORMAT:
            msg = f"written by survival-objectives {content.get('version')}; upgrade this one"
            raise ValueError(msg)
        del content["version"]
        events, follow_up = content.pop("events"), FollowUp(**content.pop("follow_up"))
        names = {int(code): name for code, name in events["names"].items()}
        columns = tuple(
            Column(**{**column, "levels": tuple(column["levels"])})
            for column in content.pop("columns")
        )
        content |= {name: tuple(content[name]) for name in ("missing", "features", "files")}
        events = Events(events["codes"], names)
        return cls(follow_up=follow_up, events=events, columns=columns, **content)


def load_model(path: str) -> HazardBoost | SurvivalBoost:
    """The model in a folder."""
    folder = Path(path)
    if not folder.exists():
        nearby = [other.name for other in folder.parent.glob("*") if (other / METADATA).exists()]
        hint = (
            suggestion(folder.name, nearby, "models there")
            if nearby
            else "train one with: survival-objectives fit"
        )
        msg = f"there is no model folder {path!r}; {hint}"
        raise CommandError(msg)
    if not folder.is_dir():
        msg = f"{path!r} is a file; give the folder that `fit` wrote"
        raise CommandError(msg)
    return load(folder)


def load_folder(path: str) -> tuple[HazardBoost | SurvivalBoost, Schema]:
    """The model and the schema in a folder."""
    model = load_model(path)
    schema = load_schema(path)
    if schema is None:
        msg = (
            f"{path!r} has no {_SCHEMA}: it was saved from Python. Use survival_objectives.load "
            "there, or train with: survival-objectives fit"
        )
        raise CommandError(msg)
    if [column.name for column in schema.columns] != list(model.feature_names_in_):
        msg = f"{path!r} is damaged: {_SCHEMA} belongs to a model of other columns; train it again"
        raise CommandError(msg)
    return model, schema


def load_schema(path: str) -> Schema | None:
    """The schema in a folder, or None if there is none."""
    file = Path(path) / _SCHEMA
    if not file.exists():
        return None
    try:
        return Schema.from_json(file.read_text(encoding="utf-8"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"{str(file)!r} is damaged ({error}); train the model again"
        raise CommandError(msg) from error


# -------------------------------------------------------------------------------------- writing
def check_file(
    path: str, option: str, *, force: bool, inputs: Sequence[str] = (), is_page: bool = False
) -> Path:
    """The path of a file to write; refused if it exists and must not be replaced.

    ``inputs`` are files and folders that the same command reads: they and their contents are never
    replaced. A page replaces pages of this package only. Streams, such as a pipe, are written to.
    """
    target = Path(path)
    if is_stream(target):
        return target
    _check_parent(target, option)
    if target.is_dir():
        msg = f"{option} is {path!r}, which is a folder; name a file, such as one in it"
        raise CommandError(msg)
    if target.exists():
        if not target.is_file():
            msg = f"{option} is {path!r}, which is a device; name a file"
            raise CommandError(msg)
        for source in map(Path, inputs):
            held = [*source.iterdir()] if source.is_dir() else [source]
            if any(file.exists() and target.samefile(file) for file in held):
                msg = f"{option} is {path!r}, which this command reads; choose another {option}"
                raise CommandError(msg)
        _check_force(path, option, force=force)
        if is_page and not is_report(target):
            msg = (
                f"{str(target)!r} exists and is not a page of this program, so it is not replaced; "
                f"choose another {option}"
            )
            raise CommandError(msg)
    return target


def check_folder(path: str, option: str, *, force: bool) -> Path:
    """The path of a model folder to write; no other folder is ever replaced."""
    target = Path(path)
    _check_parent(target, option)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return target
    if not (target / METADATA).exists():
        msg = f"{path!r} already exists and is not a model folder; choose another {option}"
        raise CommandError(msg)
    _check_force(path, option, force=force)
    foreign = sorted({file.name for file in target.iterdir()} - _own_files(target))
    if foreign:
        msg = (
            f"{path!r} has {listed(foreign)}, which this version of `fit` did not write and would "
            f"remove; move it away, or choose another {option}"
        )
        raise CommandError(msg)
    return target


def is_report(file: Path) -> bool:
    """Whether a file is a page written by this package."""
    with file.open("rb") as content:
        return _MARK in content.read(4096)


def _check_parent(target: Path, option: str) -> None:
    parent = target.parent
    if not parent.is_dir():
        msg = f"{option} is {str(target)!r}, but there is no folder {str(parent)!r}; make it first"
        raise CommandError(msg)
    if not os.access(parent, os.W_OK):
        msg = f"{option} is {str(target)!r}, but the folder {str(parent)!r} cannot be written to"
        raise CommandError(msg)


def _check_force(path: str, option: str, *, force: bool) -> None:
    if not force:
        msg = f"{path!r} exists already; choose another {option}, or replace it with --force"
        raise CommandError(msg)


def _own_files(folder: Path) -> set[str]:
    """Names of the files that an earlier ``fit`` wrote to a folder."""
    try:
        schema = load_schema(str(folder))
    except CommandError:
        return set()
    return set() if schema is None else set(schema.files)


@contextmanager
def drafted(target: Path, model: HazardBoost, schema: Schema) -> Iterator[Path]:
    """A draft of a model folder to add files to, which takes the place of ``target`` at the end.

    After an interruption, ``target`` holds either its former contents or all new ones.
    """
    target = target.resolve()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder:
        draft, old = Path(folder) / "model", Path(folder) / "old"
        model.save(draft)
        yield draft
        files = sorted({_SCHEMA, *(file.name for file in draft.iterdir())})
        (draft / _SCHEMA).write_text(
            replace(schema, files=tuple(files)).to_json(), encoding="utf-8"
        )
        if target.exists():
            target.rename(old)
        try:
            draft.rename(target)
        except BaseException:
            if old.exists() and not target.exists():
                old.rename(target)
            raise
