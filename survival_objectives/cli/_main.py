"""Arguments of all commands, and error handling.

Types of arguments are what users type, checked; errors read "--cv is 1; use 2 or more".
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from importlib import import_module
from typing import Any, NoReturn

from survival_objectives._version import __version__
from survival_objectives.cli._errors import PROGRAM, CommandError, Console, UsageError

# ----------------------------------------------------------------------------- types of arguments
# More prediction times than this are a mistyped range.
_MOST_TIMES = 1000


def whole_number(minimum: int) -> Callable[[str], int]:
    """Type of an integer that is not below ``minimum``."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            msg = f"is {text!r}; use an integer"
            raise argparse.ArgumentTypeError(msg) from None
        if number < minimum:
            msg = f"is {number}; use {minimum} or more"
            raise argparse.ArgumentTypeError(msg)
        return number

    return parse


def share(text: str) -> float:
    """A share between 0 and 1."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not 0 < number < 1:
        msg = f"is {text!r}; use a share between 0 and 1, such as 0.25"
        raise argparse.ArgumentTypeError(msg)
    return number


def times(text: str) -> list[str]:
    """Times as the user wrote them, so that columns can be named after them."""
    given = [
        each for part in text.split(",") if part.strip() for each in _steps(part.strip(), text)
    ]
    values = []
    for each in given:
        try:
            value = float(each)
        except ValueError:
            value = float("nan")
        if not 0 <= value < float("inf"):
            msg = f"is {text!r}, and {each!r} is not a time; use numbers >= 0, such as 12,24,60"
            raise argparse.ArgumentTypeError(msg)
        values.append(value)
    if not given:
        msg = f"is {text!r}; use numbers >= 0, such as 12,24,60"
        raise argparse.ArgumentTypeError(msg)
    if len(set(values)) < len(values):
        msg = f"is {text!r}, which has a time twice; leave one out"
        raise argparse.ArgumentTypeError(msg)
    return given


def _steps(part: str, text: str) -> list[str]:
    """One time, or the times of a range such as 365:1825:365, both ends included."""
    if ":" not in part:
        return [part]
    try:
        first, last, step = (Decimal(number) for number in part.split(":"))
        n_steps = int((last - first) / step) if step > 0 and last >= first >= 0 else -1
    except (ValueError, ArithmeticError):
        n_steps = -1
    if not 0 <= n_steps < _MOST_TIMES:
        msg = (
            f"is {text!r}, and {part!r} is not a range; use first:last:step, such as 365:1825:365, "
            f"of at most {_MOST_TIMES} times"
        )
        raise argparse.ArgumentTypeError(msg)
    return [f"{first + index * step:f}" for index in range(n_steps + 1)]


def time(text: str) -> str:
    """One time > 0, as the user wrote it."""
    given = times(text)
    if len(given) > 1 or float(given[0]) == 0:
        msg = f"is {text!r}; use one time > 0, such as 12"
        raise argparse.ArgumentTypeError(msg)
    return given[0]


def horizons(text: str) -> list[str]:
    """One to three times > 0, as the user wrote them."""
    given = times(text)
    if len(given) > 3 or float(given[0]) == 0:
        msg = f"is {text!r}; use one to three times > 0, such as 12,24,60"
        raise argparse.ArgumentTypeError(msg)
    return given


def shares(text: str) -> list[str]:
    """Shares between 0 and 1, as the user wrote them."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    try:
        values = [float(each) for each in given]
    except ValueError:
        values = []
    if not values or not all(0 < value < 1 for value in values) or len({*values}) < len(values):
        msg = f"is {text!r}; use different shares between 0 and 1, such as 0.25,0.5"
        raise argparse.ArgumentTypeError(msg)
    return given


def event_names(text: str) -> dict[str, str]:
    """Names of causes by their labels, from "1=death,2=relapse"."""
    names = {}
    for part in text.split(","):
        label, sign, name = (piece.strip() for piece in part.partition("="))
        if not sign or not label or not name or label in names:
            msg = f"is {text!r}; use a name for each label, such as 1=death,2=relapse"
            raise argparse.ArgumentTypeError(msg)
        names[label] = name
    return names


def one_character(text: str) -> str:
    """A separator; a tab may be written as a backslash and t."""
    text = text.replace("\\t", "\t")
    if len(text) != 1:
        msg = f"is {text!r}; use one character, such as ';' or '\\t'"
        raise argparse.ArgumentTypeError(msg)
    return text


# ------------------------------------------------------------------------------------ commands
_EXIT_CODES = """\
exit codes:
  0    done
  1    a problem with the data or the model
  2    wrong usage, or a question about the file that nobody is there to answer
  130  interrupted; nothing is left half-written (after Ctrl-C during the assessment of `fit`, the
       model is saved with the scores so far)

Results go to standard output, progress and messages to standard error.
"""


_FILES = "a CSV, Excel or Parquet file (also .csv.gz, or - for standard input)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    console = Console()
    try:
        options = _parser().parse_args(arguments)
    except UsageError as error:
        console.error(error)
        return error.code
    console.quiet = options.quiet
    try:
        with _terminated_like_interrupted(), _warnings_on(console):
            module = import_module(f"survival_objectives.cli.{_COMMANDS[options.command][0]}")
            code: int = getattr(module, f"run_{options.command}")(options, console)
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        console.error("interrupted; nothing was left half-written")
        return 130
    except BrokenPipeError:
        # The reader closed the pipe; Python must not write to it again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if options.debug:
            raise
        known = (CommandError, ImportError, OSError, TypeError, ValueError)
        bug = f"{type(error).__name__}: {error}; this is a bug, run it with --debug to see where"
        console.error(error if isinstance(error, known) else bug)
        return error.code if isinstance(error, CommandError) else 1


class _Terminated(KeyboardInterrupt):
    """SIGTERM: unlike with Ctrl-C, no partial result is kept."""


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Context in which SIGTERM ends the command like Ctrl-C, so that drafts are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _warnings_on(console: Console) -> Iterator[None]:
    """Context in which warnings for users are lines on standard error; others are hidden."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = console.show_warning
        yield


# -------------------------------------------------------------------------------------- arguments
class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        # Messages of our own types, "is 0; use 1 or more", are prefixed by the option only.
        message, is_ours = re.subn(r"^argument (\S+): is ", r"\1 is ", message)
        raise UsageError(message if is_ours else f"{message} (see: {self.prog} --help)")


# By command: the module of its function, imported when it is run, what it does, and an example.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("_demo", "train the installed engines on bundled data and compare them", "demo"),
    "fit": (
        "_fit",
        "train on a CSV, Excel or Parquet file, assess, and save the model",
        "fit people.csv --duration time --event status --out model",
    ),
    "predict": (
        "_apply",
        "predict the people of a file with a saved model",
        "predict model new.csv --times 365,730 --id patient --out risks.csv",
    ),
    "evaluate": (
        "_evaluate",
        "score a saved model on people with known outcomes, with their censoring weights",
        "evaluate model new.csv --times 365:1825:365 --by sex,age --report validation.html",
    ),
    "card": (
        "_card",
        "write a model card by TRIPOD+AI, in Markdown and HTML",
        "card model --data new.csv --by sex,age --out card.md",
    ),
    "compare": (
        "_evaluate",
        "score two models on the same people",
        "compare model other new.csv --thresholds 0.1,0.2",
    ),
    "explain": (
        "_apply",
        "write a page about one person of a file",
        "explain model new.csv --row 3 --out person.html",
    ),
    "info": ("_apply", "show what a saved model holds", "info model --json"),
    "serve": ("_apply", "answer requests with a saved model (JSON)", "serve model --port 8000"),
}
_COLUMN: dict[str, Any] = {"metavar": "COLUMN"}
_SEVERAL: dict[str, Any] = {"action": "append", "default": []}
_COLUMNS: dict[str, Any] = {**_SEVERAL, "metavar": "A,B"}
_FILE: dict[str, Any] = {"metavar": "FILE"}
_FLAG: dict[str, Any] = {"action": "store_true"}
_SHARES: dict[str, Any] = {"type": shares, "default": [], "metavar": "P,P,..."}
_TIME: dict[str, Any] = {"type": time, "metavar": "T"}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Survival and competing-risks models on XGBoost, LightGBM and CatBoost.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    group = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands: dict[str, argparse.ArgumentParser] = {}
    for name, (_, summary, example) in _COMMANDS.items():
        commands[name] = group.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"example:\n  {PROGRAM} {example}\n\n{_EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add = commands[name].add_argument
        add("--quiet", **_FLAG, help="show no progress")
        add("--debug", **_FLAG, help="show where an error comes from")
        if name not in ("demo", "fit"):
            add("model", help="the folder that `fit` wrote")
        if name == "compare":
            add(
                "other", help="another such folder, or a file of curves in the columns of `predict`"
            )
        if name == "card":
            add("--data", **_FILE, help=f"people to validate on: {_FILES}")
        elif name not in ("demo", "fit", "info", "serve"):
            add("data", help=f"{_FILES} with the columns of training")
        if name not in ("demo", "fit", "info", "serve"):
            add("--times", type=times, default=[], metavar="T,T,...", help="such as 1,2 or 1:9:2")
            _add_reading(commands[name])
        if name in ("evaluate", "compare", "card"):
            add("--duration", **_COLUMN, help="duration, where its column has another name")
            add("--event", **_COLUMN, help="outcome, where its column has another name")
            add("--id", **_COLUMN, help="column that names the person (default: as in training)")
            add("--landmark", **_TIME, help="score people event-free then, from then on")
            add("--skip-unknown", **_FLAG, help="leave out people without a duration or an event")
            add("--thresholds", **_SHARES, help="risks above which people would be treated")
        if name in ("evaluate", "compare", "info"):
            add("--json", **_FLAG, help="print JSON")
    _add_evaluate(commands["evaluate"])
    _add_card(commands["card"])
    _add_demo(commands["demo"])
    _add_fit(commands["fit"])
    _add_predict(commands["predict"])
    _add_explain(commands["explain"])
    _add_serve(commands["serve"])
    return parser


def _add_demo(demo: argparse.ArgumentParser) -> None:
    add = demo.add_argument
    add("--out", **_FILE, help="the report to write (default: report.html)")
    add("--force", **_FLAG, help="replace a file of that name")
    _add_training(demo)


def _add_fit(fit: argparse.ArgumentParser) -> None:
    add = fit.add_argument
    add("data", help=f"{_FILES} with one row per person")
    add("--duration", **_COLUMN, help="time to the event or last visit")
    add("--event", **_COLUMN, required=True, help="outcome at that time")
    add("--start-date", **_COLUMN, help="instead of --duration: date of the origin")
    add("--end-date", **_COLUMN, help="with --start-date: date of the event or last visit")
    add("--date-format", metavar="FORMAT", help="format of dates, such as %%d.%%m.%%Y")
    add("--entry", **_COLUMN, help="when people came under observation, where that was late")
    add("--id", **_COLUMN, help="column that names the person, who may have several rows")
    add("--start", **_COLUMN, help="with --id and --stop: rows are about people from then on,")
    add("--stop", **_COLUMN, help="... and until then, in place of --duration")
    add("--time-unit", metavar="UNIT", help="of the duration; days, weeks, ... between dates")
    add("--out", required=True, metavar="FOLDER", help="where to save the model")
    add("--engine", help="xgboost, lightgbm or catboost (default: the first that is installed)")
    exclusive = fit.add_mutually_exclusive_group().add_argument
    label = "value of the event column that means censored; may be repeated"
    exclusive("--censored-label", **_SEVERAL, metavar="LABEL", help=label)
    exclusive("--nobody-censored", **_FLAG, help="all values of the event column are causes")
    add("--event-names", type=event_names, metavar="LABEL=NAME,...", help="names of the causes")
    add("--skip-unknown", **_FLAG, help="leave out people without a duration or an event")
    add("--feature", **_COLUMNS, help="features that look like ids or late entry")
    add("--categorical", **_COLUMNS, help="columns to take as categories")
    add("--numeric", **_COLUMNS, help="columns to take as numbers")
    add("--date", **_COLUMNS, help="columns of dates to take as days since 1970-01-01")
    add("--drop", **_COLUMNS, help="columns to leave out")
    exclusive = fit.add_mutually_exclusive_group().add_argument
    exclusive("--cv", type=whole_number(2), metavar="K", help="assess in K folds")
    exclusive("--test-size", type=share, metavar="F", help="assess on this share, held out once")
    add("--horizons", type=horizons, metavar="T,T,...", help="one to three times for the scores")
    add("--title", help="heading of the report (default: the name of the file)")
    add("--threads", type=whole_number(1), metavar="N", help="threads of the engine")
    exclusive = fit.add_mutually_exclusive_group().add_argument
    exclusive("--report", **_FILE, help="where to write the report (default: inside --out)")
    exclusive("--no-report", **_FLAG, help="write no report")
    add("--hide-people", **_FLAG, help="show no values of real people in the report")
    add("--force", **_FLAG, help="replace existing output")
    _add_training(fit)
    _add_reading(fit)


def _add_evaluate(evaluate: argparse.ArgumentParser) -> None:
    add = evaluate.add_argument
    add("--by", **_COLUMNS, help="columns whose groups are scored too")
    add("--report", **_FILE, help="a page with curves, groups, decisions and recalibration")
    add("--title", help="with --report: heading of the page (default: the name of the file)")
    add("--force", **_FLAG, help="replace a page of that name")


def _add_card(card: argparse.ArgumentParser) -> None:
    add = card.add_argument
    add("--by", **_COLUMNS, help="columns whose groups are scored too")
    add("--out", **_FILE, default="card.md", help="where to write; beside it goes .html")
    add("--title", default="Model card", help="heading (default: Model card)")
    add("--force", **_FLAG, help="replace files of these names")


def _add_predict(predict: argparse.ArgumentParser) -> None:
    add = predict.add_argument
    add("--median", **_FLAG, help="median time to any event (empty if not reached)")
    add("--quantiles", **_SHARES, help="times by which an event has happened so probably")
    add("--mean", **_TIME, help="mean event-free time up to T")
    add("--shap", **_TIME, help="SHAP values of the log-odds of each cause at T")
    add("--out", **_FILE, default="-", help=".csv, .csv.gz, .tsv, .xlsx or .parquet (default: CSV)")
    add("--id", **_COLUMNS, help="columns to copy to the output")
    digits = "decimals of predictions (default: 7, what single precision has)"
    add("--digits", type=whole_number(0), metavar="N", default=7, help=digits)
    add("--out-decimal", choices=[".", ","], default=".", help="decimal sign in CSV")
    add("--force", **_FLAG, help="replace a file of that name")


def _add_serve(serve: argparse.ArgumentParser) -> None:
    add = serve.add_argument
    number: dict[str, Any] = {"type": whole_number(1), "metavar": "N"}
    add("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    add("--port", **number, default=8000, help="port (default: 8000)")
    add("--max-body", **number, default=10_000_000, help="bytes of a request (default: 10000000)")
    add("--max-people", **number, default=10_000, help="people of a request (default: 10000)")
    add("--max-times", **number, default=1_000, help="times of a request (default: 1000)")
    add("--max-seconds", **number, default=10, help="until a request has arrived (default: 10)")


def _add_explain(explain: argparse.ArgumentParser) -> None:
    add = explain.add_argument
    add("--row", type=whole_number(1), metavar="N", help="which person, where there are several")
    add("--out", **_FILE, default="person.html", help="the page (default: person.html)")
    add("--title", help="heading of the page (default: file and row)")
    add("--force", **_FLAG, help="replace a page of that name")


def _add_training(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--seed", type=whole_number(0), default=0, help="seed of splits and models (default: 0)")
    add("--rounds", type=whole_number(1), metavar="N", help="maximum number of boosting rounds")


def _add_reading(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--missing", **_SEVERAL, metavar="TEXT", help="a cell that means missing; repeatable")
    add("--separator", type=one_character, help="column separator (default: detected)")
    add("--decimal", choices=[".", ","], help="decimal sign (default: detected)")
