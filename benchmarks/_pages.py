"""A page of the report for each suite."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from benchmarks import _figures, growth_study
from benchmarks._burk import REFERENCE_PREFIX
from benchmarks._comparison import METRICS, compare, standard_error
from benchmarks._contenders import (
    CONTENDERS,
    HAZARDS,
    HAZARDS_DEFAULT,
    OURS,
    PAPER,
    contender,
)
from benchmarks._results import RESULTS
from benchmarks._suites import ABLATIONS, estimator_defaults
from benchmarks._tables import (
    cell,
    fate,
    levels,
    markdown,
    name_of,
    ok,
    score_table,
)
from benchmarks._verdicts import comparisons, listed, with_error

__all__ = [
    "PAGES",
    "TRUTH_HALVES",
    "ablation_changes",
    "accepted",
    "burk_ranks",
    "null_ratios",
    "truth_ratios",
]

_P_LIMIT = 0.05


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _picture(path: Path | None, root: Path, text: str) -> str:
    """Seen from a page, which stands in a folder beside that of the figures."""
    return "" if path is None else f"![{text}](../{path.relative_to(root).as_posix()})"


def _survival(table: pd.DataFrame, figures: Path, root: Path) -> str:
    scores = ("ibs", "cen_log_simple", "n_excluded", "auc", "c_index")
    costs = ("mae", "mse", "fit_cpu", "predict_cpu", "peak_mib")
    is_tuned = table["contender"].str.endswith(" tuned")
    parts = [
        "One cause, splits of 70 % to 30 %, every contender at its defaults. The Brier score is "
        "integrated up to the 95 % quantile of the follow-up; C-index and AUC are means over the "
        "quartiles of the event times; MAE is of the median, MSE of the restricted mean. Events "
        "excluded are those of test people with a predicted probability below one in a million of "
        "the interval they fell into, a 32nd of the follow-up. D and X calibration, MAE and MSE "
        "are read off curves at 200 quantiles of the event times; for D and X calibration, events "
        "in whole days are put at random moments of their days. Contenders that ran before these "
        "were computed so have a dash. No default was chosen on these tables.",
        _picture(
            _figures.draw_survival(ok(table), figures / "survival.svg"),
            root,
            "integrated Brier score against fit time",
        ),
    ]
    for case, part in table[~is_tuned].groupby("case", sort=False):
        parts.append(f"### {case}, defaults")
        parts.append(score_table(part, scores, splits=True))
        parts.append(score_table(part, costs, splits=True))
        parts.append(calibration_table(part))
    parts.append(quoted_table(table[~is_tuned]))
    for case, part in table[is_tuned].groupby("case", sort=False):
        seeds = sorted(part["seed"].unique())
        bases = set(part["contender"].str.removesuffix(" tuned"))
        same = table[(table["case"] == case) & table["seed"].isin(seeds)]
        same = same[same["contender"].str.removesuffix(" tuned").isin(bases)]
        parts.append(f"### {case}, tuned")
        parts.append(_search_note(part, seeds))
        columns = ("ibs", "cen_log_simple", "auc", "fit_cpu")
        parts.append(score_table(same, columns, splits=True))
    return _joined(parts)


#: Table 1 of the paper (Alberge et al., "Survival models: proper scoring rule and stochastic
#: optimization with competing risks"): IBS and S_Cen-log-simple on METABRIC, then on SUPPORT.
QUOTED = {
    "Kaplan-Meier": (0.185, 2.039, 0.208, 1.617),
    "DeepHit": (0.171, 2.039, 0.207, 1.771),
    "PC-Hazard": (0.169, 1.980, 0.187, 1.673),
    "Han et al.": (0.196, 2.665, 0.253, 3.223),
    "DQS": (0.172, 2.200, 0.202, 2.764),
    "SuMo-net": (0.170, 2.197, 0.194, 1.818),
    "SurvTRACE": (0.172, 1.987, 0.188, 1.606),
    "survival forest": (0.165, 1.937, 0.182, 1.942),
    "gradient boosting, scikit-survival": (0.169, 1.974, 0.187, 1.575),
    "SurvivalBoost of the paper": (0.168, 2.027, 0.181, 1.569),
}
_QUOTED_CASES = ("METABRIC", "SUPPORT")
#: Table S2 of the paper: IBS of three causes of death on SEER, which few may pass on.
QUOTED_SEER = {
    "Aalen-Johansen": (0.1209, 0.2832, 0.0834),
    "Fine-Gray": (0.1055, 0.0281, 0.0822),
    "survival forest": (0.0825, 0.0295, 0.0803),
    "DeepHit": (0.0931, 0.0330, 0.0831),
    "Deep Survival Machines": (0.0875, 0.0310, 0.0869),
    "DeSurv": (0.0975, 0.0327, 0.0869),
    "SurvTRACE": (0.0871, 0.0287, 0.0800),
    "SurvivalBoost of the paper": (0.0832, 0.0273, 0.0757),
}


def quoted_table(table: pd.DataFrame) -> str:
    """Figures of the paper beside ours, each also as a share of Kaplan-Meier's in its own runs."""
    good = ok(table[table["case"].isin(_QUOTED_CASES)])
    columns = ("ibs", "cen_log_simple")
    means = good.groupby(["contender", "case"])[list(columns)].mean()
    run: dict[str, list[float]] = {}
    for name in ("marginal", *OURS, "rsf", "gbs", "deephit", "pchazard", "sumo-net", "dsm"):
        if all((name, case) in means.index for case in _QUOTED_CASES):
            run[name] = [means.loc[(name, case), c] for case in _QUOTED_CASES for c in columns]
    if "marginal" not in run:
        return ""

    def row(label: str, numbers: Sequence[float], null: Sequence[float]) -> list[str]:
        pairs = zip(numbers, null, strict=True)
        return [label, *(f"{value:.3f} ({value / base:.2f})" for value, base in pairs)]

    rows = [row(name_of(name), values, run["marginal"]) for name, values in run.items()]
    null = QUOTED["Kaplan-Meier"]
    rows += [row(f"_{name}, quoted_", values, null) for name, values in QUOTED.items()]
    header = [f"{case}, {METRICS[c].label}" for case in _QUOTED_CASES for c in columns]
    seer = [[name, *(f"{value:.4f}" for value in values)] for name, values in QUOTED_SEER.items()]
    return _joined(
        [
            "### The paper's figures, quoted",
            "DQS, SurvTRACE, DeSurv and the survival games of Han et al. are on no package index, "
            "so their figures are quoted from the paper (Table 1), beside those of methods that "
            "run here. In brackets: as a share of Kaplan-Meier's score in the same runs. Compare "
            "these: Kaplan-Meier's own scores differ, so splits or time grids do too. The same: "
            "the data, a test share of 30 %, Kaplan-Meier weights, 32 intervals for "
            "S_Cen-log-simple. Different: the paper tunes all methods by 30 random settings, here "
            "all run at defaults; its splits and the end of its time grid are not given, and "
            "networks were trained on GPUs. `sumonet` on PyPI is about proteins (SUMOylation "
            "sites), so SuMo-net runs here in an implementation of our own.",
            markdown(["", *header], rows),
            "DeSurv was measured by the authors on SEER only, whose registration forbids passing "
            "it on, so there is no result of ours to compare (Table S2, integrated Brier by "
            "cause):",
            markdown(["_quoted_", "cause 1", "cause 2", "cause 3"], seer),
        ]
    )


def _search_note(part: pd.DataFrame, seeds: Sequence[int]) -> str:
    counts = []
    for name, rows in ok(part).groupby("contender", sort=False):
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


def accepted(p_values: pd.Series) -> str:
    """In how many splits a test does not reject."""
    values = pd.to_numeric(p_values).dropna()
    return f"{int((values > _P_LIMIT).sum())} of {len(values)}" if len(values) else "–"


def calibration_table(part: pd.DataFrame) -> str:
    """Two tests, by how many splits they do not reject, and two distances."""
    distances = ("km_calibration", "x_calibration")
    rows = []
    for name, own in ok(part).groupby("contender", sort=False):
        row = [name_of(str(name))]
        tests = ("d_calibration_p", "one_calibration_p")
        row += [accepted(own[column]) if column in own else "–" for column in tests]
        row += [cell(METRICS[c], own[c].dropna(), None) for c in distances]
        rows.append(row)
    header = ["calibration", "D, p > 0.05", "one-time, p > 0.05"]
    return markdown([*header, *(METRICS[c].label for c in distances)], rows) if rows else ""


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
        best = ok(base)["ibs_true_curves"].mean()
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
        picture = _figures.draw_truth(ok(table), figures / "competing.svg")
        parts.append(_picture(picture, root, "error to the truth along each factor"))
        parts.append(levels(varied, "ise_x1000"))
        parts.append("CPU seconds of the fits:")
        parts.append(levels(varied, "fit_cpu"))
    return _joined(parts)


def _base_text(part: pd.DataFrame) -> str:
    data = part["settings"].iloc[0]["data"]
    return (
        f"{data['n_samples']:,} people, {data['n_causes']} causes, {data['n_features']} features, "
        f"{data['censoring_rate']:.0%} censored"
    ).replace(",", " ", 1)


def _real(table: pd.DataFrame, figures: Path, root: Path) -> str:
    columns = ("ibs", "cen_log_simple", "log_loss", "c_index", "auc", "aj_calibration", "fit_cpu")
    good = ok(table)
    parts = [
        "Tables, fixed splits and how to add a contender: "
        "[competing_bench](../competing_bench/README.md). Splits of 70 % to 30 %, all at their "
        "defaults. Brier score, log-loss, C-index and "
        "AUC are means over causes with Kaplan-Meier weights, which are wrong where censoring "
        "depends on the features; S_Cen-log-simple is the likelihood of what was seen, without "
        "weights.",
        "### Ranks\n\nScores as shares of the Aalen-Johansen curve's; the mean rank is among the "
        "contenders that ran on all tables.",
    ]
    for column in ("ibs", "cen_log_simple"):
        parts += [f"{METRICS[column].label}:", share_table(good, column)]
    parts.append(
        "### Where ours lose\n\nMean of paired differences beyond its 95 % interval, corrected for "
        "overlapping splits."
    )
    for name in (one for one in OURS if one in set(good["contender"])):
        lost = listed(comparisons(good, "real", name), "lose")
        parts.append(f"{name_of(name)}:\n\n{lost or '- none'}")
    parts += [
        "### Each cause against the null model\n\nIntegrated Brier score as a share of the "
        "Aalen-Johansen curve's, mean over splits; above 1 is worse than knowing nothing (bold). "
        "In brackets 95 % limits of the mean over splits.",
        null_table(good),
        _picture(
            _figures.draw_real(good, figures / "real.svg"),
            root,
            "integrated Brier score relative to the marginal curve",
        ),
    ]
    for case, part in table.groupby("case", sort=False):
        parts.append(f"### {case}: {_TABLES.get(str(case), '')}")
        parts.append(score_table(part, columns, splits=True))
    return _joined(parts)


def null_ratios(good: pd.DataFrame, name: str) -> pd.DataFrame:
    """Brier score over the null model's by table and cause: ratio, and its 95 % limits."""
    rows = []
    for case, part in good.groupby("case", sort=False):
        own = part[part["contender"] == name].set_index("seed")
        null = part[part["contender"] == "marginal"].set_index("seed")
        for column in (c for c in part if c.startswith("ibs_cause")):
            pairs = pd.concat([own[column], null[column]], axis=1, join="inner").dropna()
            if len(pairs):
                found = _log_ratio(pairs.to_numpy(float))
                rows.append({"case": case, "cause": column.removeprefix("ibs_cause"), **found})
    return pd.DataFrame(rows, columns=["case", "cause", "ratio", "low", "high"])


def _log_ratio(pairs: np.ndarray) -> dict[str, float]:
    verdict = compare(
        METRICS["ibs"],
        dict(enumerate(pairs[:, 0])),
        dict(enumerate(pairs[:, 1])),
        splits=True,
    )
    assert verdict is not None
    reach = float(student.ppf(0.975, verdict.n_pairs - 1)) * verdict.error
    ends = np.exp([-(verdict.mean + reach) / 100, -(verdict.mean - reach) / 100])
    ratio = float(pairs[:, 0].mean() / pairs[:, 1].mean())
    return {"ratio": ratio, "low": float(ends[0]), "high": float(ends[1])}


def null_table(good: pd.DataFrame) -> str:
    """Causes by contenders."""
    names = [
        name
        for name in (*OURS, "cox", "fine-gray", "discrete-time", "hazardous")
        if name in set(good["contender"])
    ]
    found = {name: null_ratios(good, name).set_index(["case", "cause"]) for name in names}
    if not found or "marginal" not in set(good["contender"]):
        return ""
    places = dict.fromkeys(place for ratios in found.values() for place in ratios.index)
    rows = []
    for case, cause in places:
        row = [f"{case}, cause {cause}"]
        for name in names:
            if (case, cause) not in found[name].index:
                row.append("–")
                continue
            ratio, low, high = found[name].loc[(case, cause), ["ratio", "low", "high"]]
            text = f"{ratio:.3f}"
            text = f"**{text}**" if ratio > 1 else text
            row.append(text if np.isnan(low) else f"{text} ({low:.2f}–{high:.2f})")
        rows.append(row)
    header = [name_of(name) for name in names]
    return markdown(["", *header], rows)


_TABLES = {
    "covid": "hospital stays of 2675 people with COVID-19, death or discharge",
    "mgus2": "1384 people with monoclonal gammopathy, malignancy or death",
    "transplant": "815 people waiting for a liver, transplant, death or withdrawal",
    "follic": "541 people with follicular lymphoma, relapse or death",
    "pbc": "418 people with primary biliary cirrhosis, transplant or death",
    "hd": "865 people with Hodgkin's disease, relapse or death without",
    "wihs": "1164 women with HIV, treatment, or AIDS or death before it",
    "ebmt2": "8966 bone marrow transplants, six causes of death",
    "colon": "929 people after surgery for colon cancer, recurrence or death without",
    "ebmt1": "1977 bone marrow transplants, relapse or death in remission",
    "ebmt4": "2279 bone marrow transplants, recovery, adverse event, or relapse or death",
    "flchain": "7874 people with free light chains, death by circulation, neoplasms or else",
    "melanoma": "205 people after surgery for melanoma, death by it or by something else",
    "prostate_survival": "14294 people with prostate cancer, death by it or by something else",
    "rotterdam": "2982 people with breast cancer, recurrence or death without",
    "unemployment": "3343 spells of unemployment, full-time job, part-time job or a job of either",
}


def _truths(table: pd.DataFrame, _figures: Path, _root: Path) -> str:
    parts = [
        "Simulated populations of several families whose true curves are known; each seed is "
        "another member of its family. Error to the truth × 1000, mean over seeds, in brackets how "
        "many of them where a contender did not run on all. Defaults were chosen on the first "
        "half; the second confirms them; other members of the hard families served to choose "
        "folds. Ratios compare HazardBoost with the best other contender, "
        "our other methods included, on the seeds both have; the last column is our "
        "error over that of the true mean curve, the least that is possible without features.",
    ]
    for half, title in TRUTH_HALVES.items():
        part = table[table["group"] == half]
        if part.empty:
            continue
        parts.append(f"### {title}")
        parts.append(error_table(part))
        parts.append(ratio_table(ok(part)))
    parts.append("### All contenders against HazardBoost on XGBoost")
    parts.append(
        "Geometric mean over families of the contender's error over ours, on the seeds both have."
    )
    parts.append(times_ours_table(ok(table)))
    return _joined(parts)


TRUTH_HALVES = {
    "choose": "Families to choose on",
    "confirm": "Families to confirm on",
    "hard": "Hard families",
}


def times_ours_table(good: pd.DataFrame) -> str:
    """Contenders by how many times as large their errors are as ours on the default engine."""
    own = good[good["contender"] == HAZARDS_DEFAULT].set_index(["case", "seed"])
    rows = []
    for name, rival in good.groupby("contender", sort=False):
        pairs = own.join(rival.set_index(["case", "seed"]), rsuffix="_rival", how="inner")
        if name == HAZARDS_DEFAULT or pairs.empty:
            continue
        means = pairs.groupby("case")[["ise_x1000", "ise_x1000_rival"]].mean()
        ratio = means["ise_x1000_rival"] / means["ise_x1000"]
        times = float(np.exp(np.log(ratio).mean()))
        rows.append((times, [name_of(str(name)), f"{times:.2f}", f"{ratio.min():.2f}"]))
        rows[-1][1].append(f"{(ratio < 1).sum()} of {len(ratio)}")
    if not rows:
        return ""
    header = ["", "error, times ours", "smallest", "families where it is nearer to the truth"]
    return markdown(header, [row for _, row in sorted(rows)])


def error_table(part: pd.DataFrame) -> str:
    """Families by contenders; the best of those with all seeds in bold."""
    good = ok(part)
    names = [name for name in CONTENDERS if name in set(part["contender"])]
    # Seeds differ much, so a mean is of those on which ours ran too.
    own = good.loc[good["contender"] == HAZARDS_DEFAULT, ["case", "seed"]]
    shared = good.merge(own, on=["case", "seed"]) if len(own) else good
    groups = shared.groupby(["case", "contender"])["ise_x1000"]
    means, n_seeds = groups.mean().unstack(), groups.count().unstack()
    rows = []
    for case in dict.fromkeys(part["case"]):
        own = part[part["case"] == case]
        row = [f"{case} ({own['settings'].iloc[0]['data']['n_samples']})"]
        most = n_seeds.loc[case].max() if case in n_seeds.index else 0
        best = means.loc[case][n_seeds.loc[case] == most].min() if most else np.nan
        for name in names:
            value = means[name].get(case, np.nan) if name in means else np.nan
            if np.isnan(value):
                row.append(fate(own[own["contender"] == name]))
                continue
            count = n_seeds.loc[case, name]
            text = f"{value:.2f}" if count == most else f"{value:.2f} ({count:.0f} of {most:.0f})"
            row.append(f"**{text}**" if value == best and count == most else text)
        rows.append(row)
    header = [name_of(name) for name in names]
    return markdown(["family (people)", *header], rows)


def truth_ratios(good: pd.DataFrame, name: str) -> pd.DataFrame:
    """Error over the best rival's by family, who that is, and error over the marginal curve's.

    Rivals are all other contenders but HazardBoost on other engines. Each is met on the seeds that
    both have; the best is the one with the largest ratio of mean errors.
    """
    rows = []
    for case, part in good.groupby("case", sort=False):
        own = part[part["contender"] == name].set_index("seed")
        best = (0.0, "")
        for rival, other in part.groupby("contender", sort=False):
            pairs = own.join(other.set_index("seed"), rsuffix="_rival", how="inner")
            if rival in HAZARDS or pairs.empty:
                continue
            ratio = pairs["ise_x1000"].mean() / pairs["ise_x1000_rival"].mean()
            best = max(best, (float(ratio), str(rival)))
        if len(own) and best[1]:
            marginal = float(own["ise_x1000"].mean() / own["ise_marginal"].mean())
            rows.append((case, *best, marginal))
    return pd.DataFrame(rows, columns=["case", "ratio", "rival", "marginal"])


def ratio_table(good: pd.DataFrame) -> str:
    """Families by engines: ratios of `truth_ratios`, their mean and the largest."""
    found = {name: truth_ratios(good, name).set_index("case") for name in HAZARDS}
    found = {name: ratios for name, ratios in found.items() if len(ratios)}
    if not found:
        return ""
    cases = dict.fromkeys(case for ratios in found.values() for case in ratios.index)
    rows = []
    for case in cases:
        row = [str(case)]
        for ratios in found.values():
            if case not in ratios.index:
                row += ["–", "–"]
                continue
            one = ratios.loc[case]
            row += [f"{one['ratio']:.2f} ({contender(one['rival']).label})"]
            row += [f"{one['marginal']:.2f}"]
        rows.append(row)
    for label, summary in (("**mean**", "mean"), ("**largest**", "max")):
        row = [label]
        for ratios in found.values():
            row += [f"**{ratios[c].agg(summary):.2f}**" for c in ("ratio", "marginal")]
        rows.append(row)
    header = []
    for name in found:
        header += [f"{name_of(name)}, to the best (who)", "to the marginal curve"]
    return markdown(["ratio of errors", *header], rows)


def _burk(table: pd.DataFrame, _figures: Path, _root: Path) -> str:
    ranks, n_learners = burk_ranks(ok(table))
    parts = [
        "Tables, outer folds and scores of Burk et al. (2024), whose learners were tuned for this "
        "score (quoted from their results); all others run at defaults, "
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
        cpu = ok(table).groupby("contender")["fit_cpu"].mean()
        rows.append(["CPU seconds a fit", *(f"{cpu[name]:.2f}" for name in names)])
        header = [name_of(n) for n in names]
        parts.append(markdown(["", *header], rows))
        parts.append(_learner_ranks(ok(table)))
    return _joined(parts)


def _learner_ranks(good: pd.DataFrame) -> str:
    """Mean ranks of the authors' learners, among themselves and ours on the default engine."""
    part = good[good["contender"] == HAZARDS_DEFAULT]
    quoted = [column for column in part if column.startswith(REFERENCE_PREFIX)]
    if part.empty or not quoted:
        return ""
    means = part.groupby("case")[["isbs", *quoted]].mean()
    ranks = means.rank(axis=1).mean().sort_values()
    named = {"isbs": f"**{contender(HAZARDS_DEFAULT).label}**"}
    texts = [
        f"{named.get(name, name.removeprefix(REFERENCE_PREFIX))} {rank:.2f}"
        for name, rank in ranks.items()
    ]
    return "Mean ranks of all of them: " + ", ".join(texts) + "."


def burk_ranks(good: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Rank of each contender among the quoted learners, by mean scores over its folds."""
    quoted = [column for column in good if column.startswith(REFERENCE_PREFIX)]
    rows = []
    for (case, name), part in good.groupby(["case", "contender"], sort=False):
        score = part["isbs"].mean()
        better = (part[quoted].mean() < score).sum()
        rows.append({"case": case, "contender": name, "rank": 1 + better, "isbs": score})
    return pd.DataFrame(rows), len(quoted)


def _survset(table: pd.DataFrame, _figures: Path, _root: Path) -> str:
    good = ok(table)
    parts = [
        "Tables of SurvSet with one cause that neither Burk et al. nor the suite `survival` use; "
        "splits of 70 % to 30 %, all at their defaults. Scores are shares of Kaplan-Meier's, "
        "means over splits; the mean rank is among the contenders that ran on all tables.",
    ]
    for column in ("ibs", "cen_log_simple"):
        parts.append(f"### {METRICS[column].label}")
        parts.append(share_table(good, column))
    return _joined(parts)


def share_table(good: pd.DataFrame, column: str) -> str:
    """Tables by contenders: scores as shares of the marginal curve's, their mean, mean ranks."""
    means = good.groupby(["case", "contender"])[column].mean().unstack()
    if "marginal" not in means:
        return ""
    shares = means.div(means["marginal"], axis=0)
    names = [name for name in CONTENDERS if name in shares]
    cases = [case for case in dict.fromkeys(good["case"]) if case in shares.index]
    rows = []
    for case in cases:
        best = shares.loc[case].min()
        cells = [shares.loc[case, name] for name in names]
        texts = ["–" if np.isnan(value) else f"{value:.3f}" for value in cells]
        rows.append(
            [
                str(case),
                *(
                    f"**{text}**" if value == best else text
                    for value, text in zip(cells, texts, strict=True)
                ),
            ]
        )
    full = shares[names].dropna(axis=1)
    for label, summary in (("**mean**", full.mean()), ("**mean rank**", full.rank(axis=1).mean())):
        rows.append([label, *(f"{summary[n]:.3f}" if n in summary else "–" for n in names)])
    header = [name_of(name) for name in names]
    return markdown(["", *header], rows)


def _speed(table: pd.DataFrame, figures: Path, root: Path) -> str:
    parts = [
        "Simulated people with 10 features and 2 causes, one thread unless said otherwise; each "
        "fit is a process of its own. Prediction is of 5 000 people at 100 times. The engine's own "
        "softmax has as many rows, rounds and columns, of the same depth: it is the floor, as it "
        "estimates no censoring.",
        _picture(
            _figures.draw_speed(ok(table), figures / "speed.svg"),
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
            parts.append(levels(part, column))
        if group == "n":
            parts.append(_growth(ok(part)))
    parts.append(_objective_cost())
    parts.append(_growth_study(figures, root))
    return _joined(parts)


_FLOOR = "floor-xgboost"


def _growth(part: pd.DataFrame) -> str:
    """How time grows with the number of people, and what ours costs over the floor."""
    lines = []
    for name, rows in part.groupby("contender", sort=False):
        means = rows.groupby("level")["fit_cpu"].mean()
        if len(means) > 1 and name != "marginal":
            power = np.polyfit(np.log(means.index), np.log(np.maximum(means, 1e-3)), 1)[0]
            lines.append(f"- {contender(str(name)).label}: fit time grows like n^{power:.2f}.")
    pair = part[part["contender"].isin([PAPER, _FLOOR])]
    wide = pair.pivot_table(index="level", columns="contender", values="fit_cpu").dropna()
    if {PAPER, _FLOOR} <= set(wide.columns) and len(wide):
        ratios = wide[PAPER] / wide[_FLOOR]
        text = ", ".join(f"{ratio:.2f} at n = {int(n)}" for n, ratio in ratios.items())
        lines.append(f"- {contender(PAPER).label}, times the engine's own softmax: {text}.")
    return "\n".join(lines)


def _growth_study(figures: Path, root: Path) -> str:
    """The table and the picture of `benchmarks.growth_study`, from its own record."""
    rows = growth_study.records()
    if not rows:
        return ""
    return _joined(
        [
            "### Error, time and memory of larger and larger data",
            "From `python -m benchmarks.growth_study`: `HazardBoost` at its defaults, CPU seconds, "
            "MiB, and error × 1000 to known curves. `docs/howto/how_large.md` has the rest.",
            _picture(
                growth_study.picture(rows, figures / "growth.svg"),
                root,
                "error, CPU time and memory against the number of people",
            ),
            growth_study.growth_table(rows),
        ]
    )


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
        "the engine's own softmax on the same rows.\n\n" + markdown(header, rows)
    )


def _ablations(table: pd.DataFrame, figures: Path, root: Path) -> str:
    changes = ablation_changes(ok(table))
    parts = [
        "One setting of SurvivalBoost changed at a time, and of IPCWObjective, on XGBoost, on "
        "simulated people with known truth. The change of the error to the truth is against the "
        "defaults on the same seeds (100 log ratio, positive is worse) ± its standard error; CPU "
        "is the ratio of the fits. The plugin has no "
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
                "–" if row.variant == "defaults" else with_error(row.change, row.error),
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
        parts.append(markdown(header, rows))
    return _joined(parts)


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


#: Suite -> the text of its page, from its records, the folder of figures and that of the report.
PAGES: dict[str, Callable[[pd.DataFrame, Path, Path], str]] = {
    "truths": _truths,
    "burk": _burk,
    "survival": _survival,
    "survset": _survset,
    "real": _real,
    "competing": _competing,
    "speed": _speed,
    "ablations": _ablations,
}
