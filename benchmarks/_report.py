"""RESULTS.md from the records: tables, figures, and who wins, all computed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import _figures
from benchmarks._burk import REFERENCE_PREFIX
from benchmarks._comparison import METRICS, Comparison, Metric, compare, standard_error
from benchmarks._contenders import CONTENDERS, OURS, OURS_DEFAULT, OURS_IMPUTED, contender
from benchmarks._records import SUITE_RESULTS, Store
from benchmarks._results import RESULTS
from benchmarks._suites import ABLATIONS, SIZES, SUITES, estimator_defaults, jobs_of

__all__ = ["REPORT", "write_report"]

REPORT = Path(__file__).parent / "RESULTS.md"
COMMENTS = Path(__file__).parent / "comments.md"
TIE = "≈"
#: Where seeds are splits of one table, whose training people overlap.
SPLIT_SUITES = ("survival", "real", "burk")
# Printed a thousand times as large.
_SMALL = ("km_calibration", "x_calibration", "aj_calibration")
_P_LIMIT = 0.05


def write_report(folder: Path = SUITE_RESULTS, path: Path = REPORT) -> Path:
    """Write the report of the results in ``folder`` to ``path``, its figures beside it."""
    tables = {name: _latest(name, folder) for name in SUITES}
    if all(table.empty for table in tables.values()):
        msg = f"There are no results in {str(folder)!r}. Run a suite first."
        raise ValueError(msg)
    figures = path.parent / "figures"
    parts = [_head(tables), _wins(tables)]
    for name, table in tables.items():
        if not table.empty:
            parts.append(_SECTIONS[name](table, figures, path.parent))
    parts.append(_failures(tables))
    if COMMENTS.exists():
        parts.append(COMMENTS.read_text().strip())
    path.write_text("\n\n".join(part for part in parts if part) + "\n")
    return path


def _latest(suite: str, folder: Path) -> pd.DataFrame:
    """The last record of each job that the suite still has, metrics as columns."""
    known: dict[str, int] = {}
    for size in SIZES:
        for job in jobs_of(suite, size):
            known.setdefault(job.key, len(known))
    rows = [
        {**record, **record["metrics"]}
        for key, record in Store(suite, folder).latest().items()
        if key in known
    ]
    rows.sort(key=lambda row: (known[row["key"]], row["key"]))
    table = pd.DataFrame(rows)
    for column in METRICS:
        if not table.empty and column not in table:
            table[column] = np.nan
    numbers = [column for column in METRICS if column in table]
    table[numbers] = table[numbers].apply(pd.to_numeric) if numbers else table
    return table


def _ok(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["status"] == "ok"]


# -------------------------------------------------------------------------------------------- head
def _head(tables: Mapping[str, pd.DataFrame]) -> str:
    columns = ["machine", "contender", "revision", "date", "versions"]
    every = pd.concat([table[columns] for table in tables.values() if not table.empty])
    machines = sorted({_machine(machine) for machine in every["machine"]})
    ours = every[every["contender"].str.startswith("ours")]
    revisions = sorted(set(ours["revision"])) or ["none"]
    lines = [
        "# Results",
        "",
        "Written by `python -m benchmarks report`; do not edit. What is compared, how and with "
        "which limits is in [README.md](README.md); every run is a line of "
        "[results/suites](results/suites).",
        "",
        f"- Runs: {every['date'].min()[:10]} to {every['date'].max()[:10]}, {len(every)} jobs.",
        *(f"- Machine: {machine}." for machine in machines),
        f"- This project at {', '.join(f'`{revision}`' for revision in revisions)} "
        "(`+`: with changes not yet committed).",
        f"- Versions: {_versions(every)}.",
        "- Best in **bold**; "
        f"{TIE}: within one standard error of the best, by paired differences. "
        "± is the standard deviation over splits or seeds.",
    ]
    return "\n".join(lines)


def _machine(machine: Mapping[str, Any]) -> str:
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB, "
        f"{machine['system']} {machine['architecture']}"
    )


def _versions(table: pd.DataFrame) -> str:
    found: dict[str, set[str]] = {}
    for versions in table["versions"]:
        for package, version in (versions or {}).items():
            found.setdefault(package, set()).add(version)
    return ", ".join(f"{name} {' and '.join(sorted(found[name]))}" for name in sorted(found))


# ------------------------------------------------------------------------------------------ tables
def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _name(contender_name: str) -> str:
    text = contender(contender_name).label
    if contender_name.endswith(" tuned"):
        text += ", tuned"
    return f"**{text}**" if contender_name.startswith("ours") else text


def score_table(part: pd.DataFrame, columns: Sequence[str], *, splits: bool) -> str:
    """Contenders by metrics, best first by the first one; those without a result at the end."""
    good = _ok(part)
    n_seeds = part["seed"].nunique()
    values = {
        column: {
            name: rows.set_index("seed")[column].dropna()
            for name, rows in good.groupby("contender", sort=False)
        }
        for column in columns
    }
    marks = {column: _marks(METRICS[column], values[column], splits) for column in columns}
    metric = METRICS[columns[0]]
    names = list(dict.fromkeys(part["contender"]))
    means = {name: values[columns[0]].get(name, pd.Series(dtype=float)).mean() for name in names}
    names.sort(key=lambda name: _rank(means[name], metric))
    rows = []
    for name in names:
        own = part[part["contender"] == name]
        n_ok = int((own["status"] == "ok").sum())
        label = _name(name)
        if n_ok == 0:
            rows.append([label, _fate(own), *[""] * (len(columns) - 1)])
            continue
        if n_ok < n_seeds:
            label += f" ({n_ok} of {n_seeds})"
        rows.append(
            [label, *(_cell(METRICS[c], values[c].get(name), marks[c].get(name)) for c in columns)]
        )
    return _markdown(["", *(METRICS[column].label for column in columns)], rows)


def _rank(mean: float, metric: Metric) -> tuple[bool, float]:
    return bool(np.isnan(mean)), mean if metric.lower else -mean


def _marks(metric: Metric, values: Mapping[str, pd.Series], splits: bool) -> dict[str, str]:
    """Which contender is best, and who is within a standard error of it on the shared seeds."""
    most = max((len(series) for series in values.values()), default=0)
    full = {name: series for name, series in values.items() if len(series) == most and most}
    if not full:
        return {}
    best = min(full, key=lambda name: full[name].mean() * (1 if metric.lower else -1))
    marks = {best: "best"}
    for name, series in full.items():
        shared = series.index.intersection(full[best].index)
        difference = (series[shared] - full[best][shared]).to_numpy()
        error = standard_error(difference, splits=splits)
        if name != best and abs(difference.mean()) <= error:
            marks[name] = "tie"
    return marks


def _cell(metric: Metric, series: pd.Series | None, mark: str | None) -> str:
    if series is None or series.empty:
        return "–"
    scale = 1000 if metric.name in _SMALL else 1
    text = f"{scale * series.mean():.{metric.digits}f}"
    if mark == "best":
        text = f"**{text}**"
    elif mark == "tie":
        text = f"{TIE} {text}"
    if len(series) > 1:
        text += f" ± {scale * series.std(ddof=1):.{metric.digits}f}"
    return text


def _fate(rows: pd.DataFrame) -> str:
    """What became of a contender without a result."""
    counts = Counter(rows["status"])
    return ", ".join(f"{status}" for status, _ in counts.most_common())


# ---------------------------------------------------------------------------------------- sections
def _section(name: str, text: str) -> str:
    return f"## {SUITES[name].title}\n\n{text}"


def _picture(path: Path | None, root: Path, text: str) -> str:
    return "" if path is None else f"![{text}]({path.relative_to(root).as_posix()})"


def _survival(table: pd.DataFrame, figures: Path, root: Path) -> str:
    scores = ("ibs", "cen_log_simple", "auc", "c_index_0.25", "c_index_0.5", "c_index_0.75")
    costs = ("mae", "mse", "fit_cpu", "predict_cpu", "peak_mib")
    is_tuned = table["contender"].str.endswith(" tuned")
    parts = [
        "One cause, splits of 70 % to 30 %, every contender at its defaults. The Brier score is "
        "integrated up to the 95 % quantile of the follow-up; C-indices are at the quartiles of "
        "the event times, the AUC is their mean there; MAE is of the median, MSE of the restricted "
        "mean.",
        _picture(
            _figures.draw_survival(_ok(table), figures / "survival.svg"),
            root,
            "integrated Brier score against fit time",
        ),
    ]
    for case, part in table[~is_tuned].groupby("case", sort=False):
        parts.append(f"### {case}, defaults")
        parts.append(score_table(part, scores, splits=True))
        parts.append(score_table(part, costs, splits=True))
        parts.append(calibration_table(part))
    for case, part in table[is_tuned].groupby("case", sort=False):
        seeds = sorted(part["seed"].unique())
        bases = set(part["contender"].str.removesuffix(" tuned"))
        same = table[(table["case"] == case) & table["seed"].isin(seeds)]
        same = same[same["contender"].str.removesuffix(" tuned").isin(bases)]
        parts.append(f"### {case}, tuned")
        parts.append(_search_note(part, seeds))
        columns = ("ibs", "cen_log_simple", "auc", "fit_cpu")
        parts.append(score_table(same, columns, splits=True))
    return _section("survival", "\n\n".join(part for part in parts if part))


def _search_note(part: pd.DataFrame, seeds: Sequence[int]) -> str:
    counts = []
    for name, rows in _ok(part).groupby("contender", sort=False):
        numbers = [extra["n_settings"] for extra in rows["extra"]]
        shown = (
            f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)}–{max(numbers)}"
        )
        counts.append(f"{contender(str(name)).label} {shown}")
    search = part["settings"].iloc[0]["search"]
    return (
        f"Splits {', '.join(map(str, seeds))}. Random search by an inner hold-out of 20 %, the "
        f"defaults first, until {search['cpu_seconds']:g} CPU seconds or {search['max_settings']} "
        f"settings are used up. Settings tried: {'; '.join(counts) or 'none'}."
    )


def calibration_table(part: pd.DataFrame) -> str:
    """Two tests, by how many splits they do not reject, and two distances."""
    distances = ("km_calibration", "x_calibration")
    rows = []
    for name, own in _ok(part).groupby("contender", sort=False):
        row = [_name(str(name))]
        for column in ("d_calibration_p", "one_calibration_p"):
            values = (
                pd.to_numeric(own[column]).dropna() if column in own else pd.Series(dtype=float)
            )
            row.append(f"{int((values > _P_LIMIT).sum())} of {len(values)}" if len(values) else "–")
        row += [_cell(METRICS[c], own[c].dropna(), None) for c in distances]
        rows.append(row)
    header = ["calibration", "D, p > 0.05", "one-time, p > 0.05"]
    return _markdown([*header, *(METRICS[c].label for c in distances)], rows) if rows else ""


def _competing(table: pd.DataFrame, figures: Path, root: Path) -> str:
    base = table[table["group"] == "base"]
    columns = ("ise_x1000", "ibs_oracle", "fit_cpu", "predict_cpu", "peak_mib")
    parts = [
        "Simulated people whose true curves are known; censoring depends on their features. The "
        "error to the truth is the integrated squared distance of the curves, for which no weights "
        "are needed. The base case has "
        + _base_text(base if not base.empty else table)
        + ". The Brier score uses the true censoring probabilities.",
    ]
    if not base.empty:
        best = _ok(base)["ibs_true_curves"].mean()
        parts.append(f"### Base case\n\nThe true curves themselves score {best:.4f}.")
        parts.append(score_table(base, columns, splits=False))
    polar = table[table["group"] == "polar"]
    if not polar.empty:
        parts.append(
            "### Effects that are not linear\n\nThe same people, but every pair of features is "
            "shown as distance and angle. In the base case the logarithms of the hazards are "
            "linear in the features, as regressions assume; here they are not."
        )
        parts.append(score_table(polar, columns, splits=False))
    varied = table[~table["group"].isin(["base", "polar"])]
    if not varied.empty:
        parts.append("### One factor at a time: error to the truth × 1000")
        picture = _figures.draw_truth(_ok(table), figures / "competing.svg")
        parts.append(_picture(picture, root, "error to the truth along each factor"))
        parts.append(_levels(varied, "ise_x1000"))
        parts.append("CPU seconds of the fits:")
        parts.append(_levels(varied, "fit_cpu"))
    return _section("competing", "\n\n".join(part for part in parts if part))


def _base_text(part: pd.DataFrame) -> str:
    data = part["settings"].iloc[0]["data"]
    return (
        f"{data['n_samples']:,} people, {data['n_causes']} causes, {data['n_features']} features, "
        f"{data['censoring_rate']:.0%} censored"
    ).replace(",", " ", 1)


def _levels(table: pd.DataFrame, column: str) -> str:
    """Contenders by cases, means over seeds; the best of each case in bold."""
    cases = list(dict.fromkeys(table["case"]))
    names = list(dict.fromkeys(table["contender"]))
    names.sort(key=lambda name: list(CONTENDERS).index(name))
    metric = METRICS[column]
    means = _ok(table).groupby(["contender", "case"])[column].mean()
    best = means.groupby("case").min()
    rows = []
    for name in names:
        row = [_name(name)]
        for case in cases:
            own = table[(table["contender"] == name) & (table["case"] == case)]
            if (name, case) in means.index:
                value = means[name, case]
                text = f"{value:.{metric.digits}f}"
                row.append(f"**{text}**" if value == best[case] else text)
            else:
                row.append(_fate(own) if len(own) else "")
        rows.append(row)
    return _markdown(["", *cases], rows)


def _real(table: pd.DataFrame, figures: Path, root: Path) -> str:
    columns = ("ibs", "log_loss", "c_index", "auc", "aj_calibration", "fit_cpu")
    parts = [
        "Splits of 70 % to 30 %, everybody at their defaults. Scores are means over causes, with "
        "Kaplan-Meier weights.",
        _picture(
            _figures.draw_real(_ok(table), figures / "real.svg"),
            root,
            "integrated Brier score relative to the marginal curve",
        ),
    ]
    for case, part in table.groupby("case", sort=False):
        parts.append(f"### {case}: {_TABLES.get(str(case), '')}")
        parts.append(score_table(part, columns, splits=True))
    return _section("real", "\n\n".join(part for part in parts if part))


_TABLES = {
    "covid": "hospital stays of 2675 people with COVID-19, death or discharge",
    "mgus2": "1384 people with monoclonal gammopathy, malignancy or death",
    "transplant": "815 people waiting for a liver, transplant, death or withdrawal",
    "follic": "541 people with follicular lymphoma, relapse or death",
    "pbc": "418 people with primary biliary cirrhosis, transplant or death",
}


def _truths(table: pd.DataFrame, _figures: Path, _root: Path) -> str:
    parts = [
        "Simulated populations of several families whose true curves are known; each seed is "
        "another member of its family. Error to the truth × 1000, mean over seeds. Defaults were "
        "chosen on the first half; the second was run once to confirm them.",
    ]
    titles = {"choose": "Families to choose on", "confirm": "Families to confirm on"}
    for half, part in table.groupby("group", sort=False):
        parts.append(f"### {titles[str(half)]}")
        parts.append(error_table(part))
        parts.append(_ratio_text(_ok(part)))
    return _section("truths", "\n\n".join(part for part in parts if part))


def error_table(part: pd.DataFrame) -> str:
    """Families by contenders; the best of each in bold."""
    good = _ok(part)
    names = [name for name in CONTENDERS if name in set(part["contender"])]
    means = good.groupby(["case", "contender"])["ise_x1000"].mean().unstack()
    rows = []
    for case in dict.fromkeys(part["case"]):
        own = part[part["case"] == case]
        row = [f"{case} ({own['settings'].iloc[0]['data']['n_samples']})"]
        for name in names:
            value = means[name].get(case, np.nan) if name in means else np.nan
            if np.isnan(value):
                row.append(_fate(own[own["contender"] == name]))
            else:
                text = f"{value:.2f}"
                row.append(f"**{text}**" if value == means.loc[case].min() else text)
        rows.append(row)
    return _markdown(["family (people)", *map(_name, names)], rows)


def _ratio_text(good: pd.DataFrame) -> str:
    """Ours against the best of the others, on the seeds that both have."""
    lines = []
    is_ours = good["contender"].str.startswith("ours")
    best = good[~is_ours].groupby(["case", "seed"])["ise_x1000"].min()
    for name in OURS:
        own = good[good["contender"] == name].set_index(["case", "seed"])["ise_x1000"]
        pairs = pd.concat([own, best], axis=1, keys=["own", "best"], join="inner")
        if len(pairs):
            cases = pairs.groupby("case").mean()
            ratio = cases["own"] / cases["best"]
            lines.append(
                f"- {contender(name).label}: error over the smallest of the others', family by "
                f"family: mean {ratio.mean():.2f}, largest {ratio.max():.2f} ({ratio.idxmax()})."
            )
    return "\n".join(lines)


def _burk(table: pd.DataFrame, _figures: Path, _root: Path) -> str:
    ranks, n_learners = burk_ranks(_ok(table))
    parts = [
        "Tables, outer folds and scores of Burk et al. (2024), whose learners were tuned for this "
        "score (quoted from their results); everybody else runs at defaults, "
        f"on folds {', '.join(str(fold) for fold in sorted(table['seed'].unique()))}. "
        "Rank of the mean integrated survival Brier score over these folds among the authors' "
        f"{n_learners} learners and the contender itself, in brackets the score.",
    ]
    if not ranks.empty:
        wide = ranks.pivot_table(index="case", columns="contender", values="rank", sort=False)
        text = ranks.assign(
            text=[f"{r:.0f} ({s:.4f})" for r, s in zip(ranks["rank"], ranks["isbs"], strict=True)]
        )
        shown = text.set_index(["case", "contender"])["text"]
        names = [name for name in CONTENDERS if name in wide]
        rows = [
            [str(case), *(shown.get((case, name), "–") for name in names)] for case in wide.index
        ]
        rows.append(["**mean rank**", *(f"**{wide[name].mean():.2f}**" for name in names)])
        cpu = _ok(table).groupby("contender")["fit_cpu"].mean()
        rows.append(["CPU seconds a fit", *(f"{cpu[name]:.2f}" for name in names)])
        parts.append(_markdown(["", *map(_name, names)], rows))
    return _section("burk", "\n\n".join(parts))


def burk_ranks(good: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Rank of each contender among the quoted learners, by mean scores over its folds."""
    quoted = [column for column in good if column.startswith(REFERENCE_PREFIX)]
    rows = []
    for (case, name), part in good.groupby(["case", "contender"], sort=False):
        score = part["isbs"].mean()
        better = (part[quoted].mean() < score).sum()
        rows.append({"case": case, "contender": name, "rank": 1 + better, "isbs": score})
    return pd.DataFrame(rows), len(quoted)


def _speed(table: pd.DataFrame, figures: Path, root: Path) -> str:
    parts = [
        "Simulated people with 10 features and 2 causes, one thread unless said otherwise; each "
        "fit is a process of its own. Prediction is of 5 000 people at 100 times. The engine's own "
        "softmax has as many rows, rounds and columns, of the same depth: it is the floor, as it "
        "estimates no censoring.",
        _picture(
            _figures.draw_speed(_ok(table), figures / "speed.svg"),
            root,
            "time and memory against the number of people",
        ),
    ]
    for group, title in (
        ("n", "People"),
        ("rounds", "Rounds"),
        ("causes", "Causes"),
        ("threads", "Threads"),
    ):
        part = table[table["group"] == group]
        if part.empty:
            continue
        parts.append(f"### {title}")
        shown = ["fit_cpu", "predict_cpu", "peak_mib"]
        if group == "threads":
            shown = ["fit_wall", "fit_cpu"]
        elif group != "n":
            shown = ["fit_cpu"]
        for column in shown:
            parts.append(f"{METRICS[column].label}:")
            parts.append(_levels(part, column))
        if group == "n":
            parts.append(_growth(_ok(part)))
    parts.append(_objective_cost())
    return _section("speed", "\n\n".join(part for part in parts if part))


def _growth(part: pd.DataFrame) -> str:
    """How time grows with the number of people, and what ours costs over the floor."""
    lines = []
    for name, rows in part.groupby("contender", sort=False):
        means = rows.groupby("level")["fit_cpu"].mean()
        if len(means) > 1 and name != "marginal":
            power = np.polyfit(np.log(means.index), np.log(np.maximum(means, 1e-3)), 1)[0]
            lines.append(f"- {contender(str(name)).label}: fit time grows like n^{power:.2f}.")
    for ours in OURS:
        floor = ours.replace("ours", "floor")
        pair = part[part["contender"].isin([ours, floor])]
        wide = pair.pivot_table(index="level", columns="contender", values="fit_cpu").dropna()
        if {ours, floor} <= set(wide.columns) and len(wide):
            ratios = wide[ours] / wide[floor]
            text = ", ".join(f"{ratio:.2f} at n = {int(n)}" for n, ratio in ratios.items())
            lines.append(f"- {contender(ours).label}, times the engine's own softmax: {text}.")
    return "\n".join(lines)


def _objective_cost() -> str:
    """The table of `benchmarks.objective_cost`, from its own results."""
    rows = []
    for path in sorted(RESULTS.glob("objective_cost-*.json")):
        rows += [
            [
                ratio["engine"],
                ratio["question"],
                f"{ratio['arm']} / {ratio['baseline']}",
                f"{ratio['ratio']:.2f} ({ratio['ratio_min']:.2f}–{ratio['ratio_max']:.2f})",
            ]
            for ratio in json.loads(path.read_text())["ratios"]
        ]
    if not rows:
        return ""
    header = ["engine", "question", "CPU time of", "ratio (range)"]
    return (
        "### Cost of the plugin\n\nFrom `python -m benchmarks.objective_cost`: the plugin against "
        "the engine's own softmax on the same rows.\n\n" + _markdown(header, rows)
    )


def _ablations(table: pd.DataFrame, figures: Path, root: Path) -> str:
    changes = ablation_changes(_ok(table))
    parts = [
        "One setting changed at a time, XGBoost (the plugin: LightGBM), on simulated people with "
        "known truth. The change of the error to the truth is against the defaults on the same "
        "seeds (100 log ratio, positive is worse) ± its standard error; CPU is the ratio of the "
        "fits. The plugin has no "
        f"new horizons during training. Defaults: {_defaults_text()}.",
        _picture(
            _figures.draw_ablations(changes, figures / "ablations.svg"),
            root,
            "change of the error to the truth by each variant",
        ),
    ]
    lost = table[table["status"] != "ok"]
    for case, part in changes.groupby("case", sort=False):
        rows = [
            [
                row.variant,
                row.group,
                f"{row.value:.2f}",
                "–" if row.variant == "defaults" else _with_error(row.change, row.error),
                f"{row.cpu:.2f}",
            ]
            for row in part.itertuples()
        ]
        rows += [
            [row.variant, row.group, row.status, "", ""]
            for row in lost[(lost["case"] == case) & (lost["seed"] == 0)].itertuples()
        ]
        header = ["variant", "question", METRICS["ise_x1000"].label, "change, 100 log", "CPU"]
        parts.append(f"### {case}")
        parts.append(_markdown(header, rows))
    return _section("ablations", "\n\n".join(part for part in parts if part))


def _defaults_text() -> str:
    names = dict.fromkeys(
        name for variants in ABLATIONS.values() for options in variants.values() for name in options
    )
    defaults = estimator_defaults()
    return ", ".join(f"`{name}={defaults[name]!r}`" for name in names if name in defaults)


def ablation_changes(table: pd.DataFrame) -> pd.DataFrame:
    """Each variant against the defaults on the same seeds."""
    rows = []
    for case, part in table.groupby("case", sort=False):
        reference = part[part["variant"] == "defaults"].set_index("seed")
        for (group, variant), own in part.groupby(["group", "variant"], sort=False):
            pairs = own.set_index("seed").join(reference, rsuffix="_defaults", how="inner")
            if pairs.empty:
                continue
            change = 100 * np.log(pairs["ise_x1000"] / pairs["ise_x1000_defaults"])
            rows.append(
                {
                    "case": case,
                    "group": group,
                    "variant": variant,
                    "value": pairs["ise_x1000"].mean(),
                    "change": change.mean(),
                    "error": standard_error(change, splits=False),
                    "cpu": pairs["fit_cpu"].sum() / pairs["fit_cpu_defaults"].sum(),
                }
            )
    columns = ["case", "group", "variant", "value", "change", "error", "cpu"]
    return pd.DataFrame(rows, columns=columns)


def _with_error(mean: float, error: float) -> str:
    return f"{mean:+.1f}" if np.isnan(error) else f"{mean:+.1f} ± {error:.1f}"


# ------------------------------------------------------------------------------- win, tie and lose
#: What is compared where.
_JUDGED = {
    "survival": ("ibs", "cen_log_simple", "c_index", "auc", "mae", "fit_cpu"),
    "competing": ("ise_x1000", "fit_cpu"),
    "real": ("ibs", "log_loss", "c_index", "auc", "fit_cpu"),
    "speed": ("fit_cpu", "predict_cpu", "peak_mib"),
    "truths": ("ise_x1000", "fit_cpu"),
    "burk": ("isbs", "fit_cpu"),
}
_WORDS = {"win": "win", "tie": "tie", "lose": "**lose**", "one run": "one run"}


def comparisons(table: pd.DataFrame, suite: str, ours: str) -> list[dict[str, Any]]:
    """Ours against every other contender, in each group of cases and by each metric."""
    good = _ok(table)
    found = []
    for group, part in good.groupby("group", sort=False):
        by_name = {
            name: rows.set_index(["case", "seed"])
            for name, rows in part.groupby("contender", sort=False)
        }
        own = by_name.get(ours)
        if own is None or (suite == "speed" and group != "n"):
            continue
        is_tuned = ours.endswith(" tuned")
        for name, rows in by_name.items():
            is_rival = not name.startswith(("ours", "floor"))
            if not is_rival or name.endswith(" tuned") != is_tuned:
                continue
            for column in _JUDGED[suite]:
                verdict = compare(
                    METRICS[column],
                    own[column].dropna().to_dict(),
                    rows[column].dropna().to_dict(),
                    splits=suite in SPLIT_SUITES,
                )
                if verdict is not None:
                    found.append(
                        {
                            "suite": suite,
                            "group": group,
                            "contender": name,
                            "metric": column,
                            "comparison": verdict,
                        }
                    )
    return found


def _wins(tables: Mapping[str, pd.DataFrame]) -> str:
    judged = {name: tables[name] for name in _JUDGED if not tables[name].empty}
    everyone = {
        ours: [row for name, table in judged.items() for row in comparisons(table, name, ours)]
        for ours in (*OURS, OURS_IMPUTED, f"{OURS_DEFAULT} tuned")
    }
    parts = [
        "## What we win, tie and lose",
        "Computed from paired differences over splits or seeds; the rule is in "
        "[_comparison.py](_comparison.py). A win or loss is beyond the 95 % interval of the mean; "
        "factors of the simulation and sizes are pooled over their levels; nothing is said of a "
        "single run. Numbers are how far ours is ahead, in per cent (100 log ratio) or points; × "
        "is how many times as much time or memory the other takes.",
        _counts(everyone),
    ]
    if not any(everyone.values()):
        parts.append("There are no pairs to compare yet.")
        return "\n\n".join(parts)
    for title, wanted in (("What we lose", "lose"), ("What we tie", "tie")):
        parts.append(f"### {title}: quality, SurvivalBoost on XGBoost")
        listed = _listed(everyone[OURS_DEFAULT], wanted)
        parts.append(listed or "None of the comparisons with more than one run.")
    parts.append("### Every comparison of SurvivalBoost on XGBoost")
    for suite in judged:
        rows = [row for row in everyone[OURS_DEFAULT] if row["suite"] == suite]
        parts.append(_verdict_table(suite, rows))
    tuned = everyone[f"{OURS_DEFAULT} tuned"]
    if tuned:
        parts.append("### The same, both tuned")
        parts.append(_verdict_table("survival", tuned))
    return "\n\n".join(part for part in parts if part)


_COSTS = ("fit_cpu", "predict_cpu", "peak_mib")


def _counts(everyone: Mapping[str, list[dict[str, Any]]]) -> str:
    rows = []
    for ours, found in everyone.items():
        if not found:
            continue
        row = [_name(ours)]
        for is_cost in (False, True):
            counts = Counter(
                one["comparison"].verdict for one in found if (one["metric"] in _COSTS) == is_cost
            )
            row += [str(counts[verdict]) for verdict in ("win", "tie", "lose", "one run")]
        rows.append(row)
    verdicts = ["tie", "lose", "one run"]
    header = ["", "quality: win", *verdicts, "time, memory: win", *verdicts]
    return _markdown(header, rows) if rows else ""


def _listed(found: Sequence[Mapping[str, Any]], wanted: str) -> str:
    lines = []
    for row in found:
        comparison: Comparison = row["comparison"]
        if comparison.verdict == wanted and row["metric"] not in _COSTS:
            lines.append(
                f"- {_place(row)}, {METRICS[row['metric']].label}: "
                f"{contender(row['contender']).label}, {_advantage(row)}"
            )
    return "\n".join(lines)


def _place(row: Mapping[str, Any]) -> str:
    if row["suite"] in SPLIT_SUITES:
        return str(row["group"])
    if row["suite"] == "speed":
        return "speed over n"
    if row["suite"] == "truths":
        return f"truths to {row['group']} on"
    named = {"base": "simulated, base case", "polar": "simulated, not linear"}
    return named.get(row["group"], f"simulated, over {row['group']}")


def _advantage(row: Mapping[str, Any]) -> str:
    """How far ours is ahead; for time and memory, how many times as much the other takes."""
    comparison: Comparison = row["comparison"]
    if row["metric"] in _COSTS:
        return f"×{np.exp(comparison.mean / 100):.2g}"
    return f"{_with_error(comparison.mean, comparison.error)} {METRICS[row['metric']].unit}"


def _verdict_table(suite: str, found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return ""
    columns = [column for column in _JUDGED[suite] if any(r["metric"] == column for r in found)]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in found:
        place = cells.setdefault((_place(row), row["contender"]), {})
        word = _WORDS[row["comparison"].verdict]
        place[row["metric"]] = f"{word} {_advantage(row)}"
    rows = [
        [f"{place}: {contender(name).label}", *(verdicts.get(column, "") for column in columns)]
        for (place, name), verdicts in cells.items()
    ]
    title = SUITES[suite].title
    return _markdown([title, *(METRICS[column].label for column in columns)], rows)


# ---------------------------------------------------------------------------------------- failures
def _failures(tables: Mapping[str, pd.DataFrame]) -> str:
    rows = []
    for name, table in tables.items():
        if table.empty:
            continue
        lost = table[table["status"] != "ok"]
        groups = lost.groupby(["contender", "status", "reason"], sort=False)
        for (who, status, reason), part in groups:
            cases = ", ".join(dict.fromkeys(part["case"]))
            label = contender(str(who)).label
            variants = ", ".join(variant for variant in dict.fromkeys(part["variant"]) if variant)
            shown = f"{label} ({variants})" if variants else label
            if str(who).endswith(" tuned"):
                shown += ", tuned"
            rows.append([shown, name, cases, str(len(part)), str(status), str(reason)])
    text = "## Without a result\n\n"
    if not rows:
        return text + "Every job of every contender ended with a result."
    header = ["contender", "suite", "cases", "jobs", "status", "reason"]
    return text + _markdown(header, [[cell.replace("|", "/") for cell in row] for row in rows])


_SECTIONS: dict[str, Callable[[pd.DataFrame, Path, Path], str]] = {
    "survival": _survival,
    "competing": _competing,
    "real": _real,
    "speed": _speed,
    "truths": _truths,
    "burk": _burk,
    "ablations": _ablations,
}
