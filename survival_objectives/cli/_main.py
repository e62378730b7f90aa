"""Arguments of all commands, and error handling."""

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
from typing import Any, NoReturn

from survival_objectives._version import __version__
from survival_objectives.cli._apply import run_info, run_predict
from survival_objectives.cli._arguments import (
    amount,
    event_names,
    horizons,
    one_character,
    share,
    shares,
    time,
    times,
    whole_number,
)
from survival_objectives.cli._console import PROGRAM, Console
from survival_objectives.cli._demo import run_demo
from survival_objectives.cli._errors import CommandError, UsageError
from survival_objectives.cli._evaluate import run_compare, run_evaluate
from survival_objectives.cli._explain import run_explain
from survival_objectives.cli._fit import run_fit
from survival_objectives.estimators import ENGINES

_EXIT_CODES = """\
exit codes:
  0    done
  1    a problem with the data or the model
  2    wrong usage
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
            code: int = options.run(options, console)
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        console.error("interrupted; nothing was left half-written")
        return 130
    except BrokenPipeError:
        # The reader closed the pipe; Python must not write to it again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except CommandError as error:
        if options.debug:
            raise
        console.error(error)
        return error.code
    except (ImportError, OSError, TypeError, ValueError) as error:
        if options.debug:
            raise
        console.error(error)
        return 1
    except Exception as error:
        if options.debug:
            raise
        console.error(
            f"{type(error).__name__}: {error}; this is a bug, run it with --debug to see where"
        )
        return 1


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


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Survival and competing-risks models on XGBoost, LightGBM and CatBoost.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Callable[..., int], summary: str) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=_EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.set_defaults(run=run)
        command.add_argument("--quiet", action="store_true", help="show no progress")
        command.add_argument("--debug", action="store_true", help="show where an error comes from")
        return command

    _add_demo(
        add(
            "demo",
            run_demo,
            "train on bundled data with the installed engines and compare with baselines",
        )
    )
    _add_fit(
        add("fit", run_fit, "train on a CSV, Excel or Parquet file, assess, and save the model")
    )
    predict = add("predict", run_predict, "predict the people of a file with a saved model")
    evaluate = add(
        "evaluate",
        run_evaluate,
        "score a saved model on people with known outcomes, with their censoring weights",
    )
    compare = add("compare", run_compare, "score two saved models on the same people")
    explain = add("explain", run_explain, "write a page about one person of a file")
    info = add("info", run_info, "show what a saved model holds")
    for command in (predict, evaluate, compare, explain, info):
        command.add_argument("model", help="the folder that `fit` wrote")
    compare.add_argument("other", help="another such folder")
    for command in (predict, evaluate, compare, explain):
        command.add_argument("data", help=f"{_FILES} with the columns of training")
        _add_reading(command)
    for command in (evaluate, compare, info):
        command.add_argument("--json", action="store_true", help="print JSON")
    for command in (predict, evaluate, compare, explain):
        command.add_argument(
            "--times",
            type=times,
            default=[],
            metavar="T,T,...",
            help="times, or a range of them as first:last:step, such as 365:1825:365",
        )
    _add_predict(predict)
    _add_explain(explain)
    for command in (evaluate, compare):
        command.add_argument("--duration", help="the duration column, where it has another name")
        command.add_argument("--event", help="the event column, where it has another name")
        command.add_argument(
            "--id", metavar="COLUMN", help="column that names the person (default: as in training)"
        )
    return parser


def _add_demo(demo: argparse.ArgumentParser) -> None:
    add = demo.add_argument
    add("--out", default=None, metavar="FILE", help="the report to write (default: report.html)")
    add("--force", action="store_true", help="replace a file of that name")
    _add_training(demo)


def _add_fit(fit: argparse.ArgumentParser) -> None:
    add = fit.add_argument
    add("data", help=f"{_FILES} with one row per person")
    add("--duration", help="column: time to the event or last visit")
    add("--event", required=True, help="column: outcome at that time")
    add("--start-date", metavar="COLUMN", help="instead of --duration: date of entry")
    add("--end-date", metavar="COLUMN", help="with --start-date: date of the event or last visit")
    add("--date-format", metavar="FORMAT", help="format of dates, such as %%d.%%m.%%Y")
    add(
        "--time-unit",
        metavar="UNIT",
        help="unit of the duration, for the report; between dates: days, weeks, months or years "
        "(default: days)",
    )
    add("--out", required=True, metavar="FOLDER", help="where to save the model")
    add("--engine", help=f"{', '.join(ENGINES)} (default: the first that is installed)")
    censoring = fit.add_mutually_exclusive_group()
    censoring.add_argument(
        "--censored-label",
        action="append",
        default=[],
        metavar="LABEL",
        help="value of the event column that means censored; may be repeated",
    )
    censoring.add_argument(
        "--nobody-censored", action="store_true", help="all values of the event column are causes"
    )
    add(
        "--event-names",
        type=event_names,
        metavar="LABEL=NAME,...",
        help="names of the causes, such as 1=death,2=relapse",
    )
    add(
        "--id",
        metavar="COLUMN",
        help="column that names the person, of whom there are several rows",
    )
    for option, summary in (
        ("--feature", "columns to take as features, although they look like ids or late entry"),
        ("--categorical", "columns to take as categories"),
        ("--numeric", "columns to take as numbers"),
        ("--date", "columns of dates to take as days since 1970-01-01"),
        ("--drop", "columns to leave out"),
    ):
        add(option, action="append", default=[], metavar="A,B", help=summary)
    how = fit.add_mutually_exclusive_group()
    how.add_argument(
        "--cv",
        type=whole_number(2),
        metavar="K",
        help="assess by K-fold cross-validation (default: 5 folds up to 20 000 people, and a "
        "single held-out part above)",
    )
    how.add_argument(
        "--test-size", type=share, metavar="F", help="assess on this share, held out once"
    )
    how.add_argument(
        "--budget",
        type=amount,
        metavar="MINUTES",
        help="assess as thoroughly as this many minutes after the training allow",
    )
    add(
        "--tune",
        type=whole_number(2),
        metavar="N",
        help="compare N settings by an inner cross-validation, again in every fold, and keep the "
        "best",
    )
    add(
        "--horizons",
        type=horizons,
        metavar="T,T,...",
        help="one to three times of concordance and calibration (default: quartiles of events)",
    )
    add("--title", help="heading of the report (default: the name of the file)")
    add("--threads", type=whole_number(1), metavar="N", help="threads of the engine")
    where = fit.add_mutually_exclusive_group()
    where.add_argument(
        "--report", metavar="FILE", help="where to write the report (default: inside --out)"
    )
    where.add_argument("--no-report", action="store_true", help="write no report")
    add("--hide-people", action="store_true", help="show no values of real people in the report")
    add(
        "--memory",
        type=amount,
        metavar="GIB",
        help="memory limit: larger Parquet files are trained on from disk (default: most of the "
        "free memory)",
    )
    add("--force", action="store_true", help="replace existing output")
    _add_training(fit)
    _add_reading(fit)


def _add_predict(predict: argparse.ArgumentParser) -> None:
    add = predict.add_argument
    add("--median", action="store_true", help="median time to any event (empty if not reached)")
    add(
        "--quantiles",
        type=shares,
        default=[],
        metavar="Q,Q,...",
        help="times by which an event has happened with these probabilities",
    )
    add(
        "--bands",
        type=shares,
        default=[],
        metavar="P,P,...",
        help="limits between which the event falls with this probability, such as 0.8",
    )
    add("--mean", type=time, metavar="T", help="mean event-free time up to T")
    add(
        "--shap",
        type=time,
        metavar="T",
        help="SHAP values of the log-odds of each cause against event-free at T",
    )
    add(
        "--out",
        default="-",
        metavar="FILE",
        help="a .csv, .csv.gz, .tsv, .xlsx or .parquet file (default: CSV on standard output)",
    )
    add("--id", action="append", default=[], metavar="A,B", help="columns to copy to the output")
    add("--digits", type=whole_number(0), metavar="N", help="decimals to write (default: all)")
    add(
        "--out-decimal",
        choices=[".", ","],
        default=".",
        help="decimal sign in CSV; with a comma, semicolons separate columns",
    )
    add("--force", action="store_true", help="replace a file of that name")


def _add_explain(explain: argparse.ArgumentParser) -> None:
    add = explain.add_argument
    add("--row", type=whole_number(1), metavar="N", help="which person, where there are several")
    add("--out", default="person.html", metavar="FILE", help="the page (default: person.html)")
    add("--title", help="heading of the page (default: file and row)")
    add("--force", action="store_true", help="replace a page of that name")


def _add_training(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--seed", type=whole_number(0), default=0, help="seed of splits and models (default: 0)")
    add(
        "--rounds",
        type=whole_number(1),
        metavar="N",
        help="boosting rounds, a maximum if chosen on held-out people (default: by method)",
    )


def _add_reading(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--missing",
        action="append",
        default=[],
        metavar="TEXT",
        help="a further cell that means missing; may be repeated",
    )
    add("--separator", type=one_character, help="column separator (default: detected)")
    add("--decimal", choices=[".", ","], help="decimal sign (default: detected)")
