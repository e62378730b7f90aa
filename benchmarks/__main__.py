"""Benchmark suites from the command line: ``python -m benchmarks {run,report,list,environments}``.

    python -m benchmarks run survival --data FOLDER
    python -m benchmarks run competing --only ours-survivalboost,hazardous --seeds 0 1
    python -m benchmarks report

Results are appended to benchmarks/results/suites; `report` writes benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks._contenders import CONTENDERS, contender
from benchmarks._environments import Environments, EnvironmentUnavailableError
from benchmarks._records import SUITE_RESULTS, Store
from benchmarks._report import REPORT, write_report
from benchmarks._runner import Runner, fingerprint
from benchmarks._suites import SUITES, Job, jobs_of


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options) or 0)
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped. Finished jobs are kept; the same command continues.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n")[0]
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    run = commands.add_parser("run", help="run a suite, or what is missing of it")
    run.add_argument("suite", choices=[*SUITES, "all"])
    _add_size(run)
    run.add_argument("--only", metavar="NAME,...", help="contenders, separated by commas")
    run.add_argument("--cases", nargs="+", metavar="CASE", help="cases, as in the results")
    run.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help="seeds or splits")
    run.add_argument(
        "--data",
        default=os.environ.get("SURVIVAL_DATA_DIR"),
        help="folder of METABRIC, SUPPORT, GBSG, burk2024 and competing; "
        "default: SURVIVAL_DATA_DIR",
    )
    run.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="ENVIRONMENT=PATH",
        help="an interpreter to use instead of making that environment",
    )
    run.add_argument("--seconds", type=float, help="limit of CPU seconds a job")
    run.add_argument("--memory", type=float, metavar="MIB", help="limit of memory a job")
    run.add_argument("--again", action="store_true", help="run also what is done already")
    _add_results(run)
    run.set_defaults(command=_run)

    report = commands.add_parser("report", help="write tables and figures from the results")
    _add_results(report)
    report.add_argument("--out", type=Path, default=REPORT, help="default: benchmarks/RESULTS.md")
    report.set_defaults(command=_report)

    listing = commands.add_parser("list", help="show suites, or the jobs of one")
    listing.add_argument("suite", nargs="?", choices=list(SUITES))
    _add_size(listing)
    _add_results(listing)
    listing.set_defaults(command=_list)

    environments = commands.add_parser("environments", help="show environments, or make them")
    environments.add_argument("--make", nargs="*", metavar="NAME", help="make these, or all")
    environments.set_defaults(command=_environments)
    return parser


def _add_size(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    for name, text in (
        ("extended", "the full version, then what takes longest"),
        ("quick", "a small version that takes minutes, kept apart from the results"),
        ("smoke", "a tiny version in this interpreter, kept apart from the results"),
    ):
        size.add_argument(
            f"--{name}", dest="size", action="store_const", const=name, default="full", help=text
        )


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results", type=Path, help="folder of results; default: benchmarks/results/suites"
    )


def _folder(options: argparse.Namespace) -> Path:
    if options.results is not None:
        return Path(options.results)
    size = getattr(options, "size", "full")
    return (
        SUITE_RESULTS if size in ("full", "extended") else SUITE_RESULTS.with_name(f"suites-{size}")
    )


# --------------------------------------------------------------------------------------- commands
def _run(options: argparse.Namespace) -> int:
    given = dict(_interpreter(text) for text in options.python)
    environments = Environments(given)
    names = list(SUITES) if options.suite == "all" else [options.suite]
    chosen = {name: _chosen(jobs_of(name, options.size), options) for name in names}
    if not any(chosen.values()):
        msg = f"No job of {options.suite} fits --only, --cases and --seeds."
        raise ValueError(msg)
    _check_data(chosen, options.data)
    worst = 0
    for name, jobs in chosen.items():
        suite = SUITES[name]
        if options.seconds is not None:
            suite = replace(suite, cpu_seconds=options.seconds)
        if options.memory is not None:
            suite = replace(suite, memory_mib=options.memory)
        runner = Runner(
            suite,
            Store(name, _folder(options)),
            environments,
            options.data,
            in_process=options.size == "smoke",
            again=options.again,
        )
        print(f"{name}: {len(jobs)} jobs", flush=True)
        records = runner.run(jobs)
        worst = max(worst, int(any(record["status"] == "error" for record in records)))
    return worst


def _interpreter(text: str) -> tuple[str, str]:
    name, separator, path = text.partition("=")
    if not separator or not path:
        msg = f"--python takes ENVIRONMENT=PATH; got {text!r}."
        raise ValueError(msg)
    return name, path


def _chosen(jobs: list[Job], options: argparse.Namespace) -> list[Job]:
    names = [name.strip() for name in options.only.split(",")] if options.only else None
    for name in names or []:
        contender(name)
    return [
        job
        for job in jobs
        if (names is None or {job.contender, job.contender.removesuffix(" tuned")} & set(names))
        and (options.cases is None or job.case in options.cases)
        and (options.seeds is None or job.seed in options.seeds)
    ]


def _check_data(chosen: dict[str, list[Job]], folder: str | None) -> None:
    """Before any work begins: real data that a chosen job needs must be there."""
    from benchmarks._burk import BURK_TABLES, burk_folder
    from benchmarks._problems import LOADED, STORED, load_stored

    tables = dict.fromkeys(job.data.get("table") for jobs in chosen.values() for job in jobs)
    for name in tables:
        try:
            if name in LOADED:
                LOADED[name](folder)
            elif name in STORED:
                load_stored(name, folder)
        except FileNotFoundError as error:
            msg = f"{name} is needed: give its folder with --data. {error}"
            raise FileNotFoundError(msg) from None
    if any(job.kind == "burk" and job.case in BURK_TABLES for job in chosen.get("burk", [])):
        burk_folder(folder)


def _report(options: argparse.Namespace) -> int:
    path = write_report(_folder(options), options.out)
    print(f"Written to {path}.")
    return 0


def _list(options: argparse.Namespace) -> int:
    if options.suite is None:
        for name, suite in SUITES.items():
            jobs = jobs_of(name, options.size)
            settled = Store(name, _folder(options)).settled()
            done = sum((job.key, fingerprint(job)) in settled for job in jobs)
            print(f"{name:<12} {len(jobs):>4} jobs, {done:>4} done   {suite.title}")
        print(f"\nContenders: {', '.join(CONTENDERS)}")
        return 0
    latest = Store(options.suite, _folder(options)).latest()
    for job in jobs_of(options.suite, options.size):
        record = latest.get(job.key)
        state = "-" if record is None else record["status"]
        if record is not None and record["fingerprint"] != fingerprint(job):
            state += " (other code)"
        print(f"{state:<20} {job.key}")
    return 0


def _environments(options: argparse.Namespace) -> int:
    environments = Environments()
    names = environments.names()
    unknown = sorted(set(options.make or []) - set(names))
    if unknown:
        msg = f"No environment is called {unknown[0]!r}. Choose from: {', '.join(names)}."
        raise ValueError(msg)
    failed = 0
    for name in names:
        if options.make is not None and (name in options.make or not options.make):
            try:
                environments.python(name)
            except EnvironmentUnavailableError as error:
                failed = 1
                print(f"{name:<16} {error}")
                continue
        users = [one.name for one in CONTENDERS.values() if one.environment == name]
        pins = [line for line in environments.requirements(name).splitlines() if "==" in line]
        print(f"{name:<16} {environments.state(name):<13} {', '.join(users) or 'data'}")
        print(f"{'':<16} {' '.join(pins)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
