"""The printed numbers of the STRATOS guide to validation with competing risks, recomputed.

The guide (van Geloven et al., BMJ 2022;377:e069249) validates a model of breast cancer recurrence
on 1 000 people at 5 years. Writes results/stratos_guide.json and prints guide and recomputed side
by side. The data are those of the guide's public code (GPL) and not part of this package:

    python -m benchmarks.stratos_guide FOLDER   # or SURVIVAL_DATA_DIR; with validation.csv,
                                                # development.csv
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._people import check_survival_target
from survival_objectives.marginal import aalen_johansen, kaplan_meier_censoring
from survival_objectives.metrics import Estimate, Evaluation

FloatArray = npt.NDArray[np.float64]

_RESULTS = Path(__file__).parent / "results" / "stratos_guide.json"
_HORIZON = 5.0
# As printed: value, lower, upper.
_PRINTED: dict[str, tuple[float, ...]] = {
    "O/E": (0.81, 0.67, 0.97),
    "intercept": (-0.15, -0.36, 0.05),
    "slope": (1.22, 0.84, 1.60),
    "joint p": (0.09,),
    "C": (0.71, 0.67, 0.76),
    "AUC": (0.71, 0.66, 0.77),
    "Brier": (0.09, 0.07, 0.10),
    "scaled Brier": (0.06, 0.00, 0.08),
    "net benefit at 20 %, validation": (0.014,),
    "net benefit at 20 %, development": (0.011,),
    "ICI, nearest neighbours": (0.0308,),
    "E50, nearest neighbours": (0.0298,),
    "E90, nearest neighbours": (0.0524,),
    "Emax, nearest neighbours": (0.1584,),
    "root squared bias, nearest neighbours": (0.0349,),
    "ICI, subdistribution": (0.0274,),
    "E50, subdistribution": (0.0305,),
    "E90, subdistribution": (0.0346,),
    "Emax, subdistribution": (0.1167,),
    "root squared bias, subdistribution": (0.0292,),
}
_NOTES = {
    "O/E": "The guide takes the expected number for known; here both vary with the people drawn. "
    "With its formula the limits are in `O/E, expected known`.",
    "intercept": "The derivative in the sandwich is that of the equation itself, not its "
    "expectation under a slope of 1, which gives -0.357 to 0.055.",
    "C": "The guide's limits are a bootstrap percentile interval.",
    "AUC": "Limits on the logit scale; `AUC, symmetric limits` are the guide's.",
    "scaled Brier": "The guide's limits are a bootstrap percentile interval.",
    "ICI, nearest neighbours": "The guide prints loess with a span of 0.33, but its numbers are "
    "those of nearest-neighbour means of the pseudo-observations with a bandwidth of 0.05 "
    "(riskRegression::plotCalibration, round=FALSE), over all people. Loess, which `Evaluation` "
    "uses, gives the rows `loess`.",
    "Emax, subdistribution": "A Fine-Gray model of a natural spline with five inner knots of the "
    "risks, as in the guide. The largest distance is that of the largest risk, as above.",
    "Emax, nearest neighbours": "R's riskRegression 2022.11.28 gives 0.15819 and 0.03484 on these "
    "predictions, as here; the guide's 0.1584 and 0.0349 are those of its own versions.",
}


def _load(folder: Path, name: str) -> tuple[dict[str, FloatArray], FloatArray]:
    path = folder / f"{name}.csv"
    if not path.is_file():
        msg = f"{path} is missing: pass the folder with the guide's data, or set SURVIVAL_DATA_DIR."
        raise SystemExit(msg)
    frame = pd.read_csv(path)
    y = {"event": frame["status_num"].to_numpy(), "duration": frame["time"].to_numpy()}
    return y, frame[["risk_5_years"]].to_numpy()


def neighbour_means(risk: FloatArray, pseudo: FloatArray, bandwidth: float) -> FloatArray:
    """Mean of the pseudo-observations of each person's nearest neighbours in rank, as in R.

    As prodlim's ``meanNeighbors``: from the last of the people with this risk, a share of
    ``bandwidth`` to both sides. People with the first rank's risk all count, those with the last
    rank's only if all are within.
    """
    _, level, size = np.unique(risk, return_inverse=True, return_counts=True)
    end = np.cumsum(size)
    radius = np.floor(bandwidth * len(risk))
    first = (end - size)[np.minimum(np.searchsorted(end, end - radius), len(end) - 1)]
    last = end[np.searchsorted(end, end + radius, side="right") - 1]
    total = np.concatenate([[0.0], np.cumsum(pseudo[np.argsort(risk, kind="stable")])])
    means: FloatArray = ((total[last] - total[first]) / (last - first))[level]
    return means


def subdistribution_risks(
    y: dict[str, FloatArray], risk: FloatArray, horizon: float, n_knots: int = 5
) -> FloatArray:
    """Observed risks at the horizon by a Fine-Gray model of a natural spline of the predicted ones.

    As R's ``FGR`` with ``ns(log(-log(1 - risk)), df = n_knots + 1)``: inner knots at quantiles,
    people with a competing event stay at risk with the weight of not being censored since.
    """
    event, duration = y["event"], y["duration"]
    x = np.log(-np.log1p(-risk))
    *knots, last = np.quantile(x, np.linspace(0, 1, n_knots + 2))
    far = [np.clip(x - k, 0, None) ** 3 - np.clip(x - last, 0, None) ** 3 for k in knots]
    *far, base = [cubes / (last - k) for cubes, k in zip(far, knots, strict=True)]
    design = np.stack([x, *(each - base for each in far)], axis=1)
    design = (design - design.mean(axis=0)) / design.std(axis=0)
    own = event == 1
    times, n_events = np.unique(duration[own], return_counts=True)
    censoring = kaplan_meier_censoring(check_survival_target(y))
    later = censoring(times, left=True) / censoring(duration, left=True)[:, None]
    gone = np.where((event > 1)[:, None], later, 0.0)
    weight = np.where(duration[:, None] >= times, 1.0, gone)
    beta = np.zeros(design.shape[1])
    for _ in range(30):
        at_risk = weight * np.exp(design @ beta)[:, None]
        total = at_risk.sum(axis=0)
        mean = (at_risk.T @ design) / total[:, None]
        square = design.T @ ((at_risk @ (n_events / total))[:, None] * design)
        information = square - mean.T @ (n_events[:, None] * mean)
        step = np.linalg.solve(information, design[own].sum(axis=0) - n_events @ mean)
        beta += step
        if np.abs(step).max() < 1e-10:
            break
    hazard = (n_events / total)[times <= horizon].sum()
    found: FloatArray = -np.expm1(-np.exp(design @ beta) * hazard)
    return found


def _summaries(gap: FloatArray) -> dict[str, float]:
    return {
        "ICI": float(gap.mean()),
        "E50": float(np.quantile(gap, 0.5)),
        "E90": float(np.quantile(gap, 0.9)),
        "Emax": float(gap.max()),
        "root squared bias": float(np.sqrt(np.mean(gap**2))),
    }


def recomputed(folder: Path) -> dict[str, tuple[float, ...]]:
    """All numbers, with limits where there are any."""
    y, risk = _load(folder, "validation")
    labels, horizon = [0, 1, 2], [_HORIZON]
    people = Evaluation(None, y, risk, horizon, event_ids=labels)
    calibration = people.calibration(1)
    found = {
        "O/E": _numbers(people.observed_expected(1)),
        "intercept": _numbers(calibration.intercept),
        "slope": _numbers(calibration.slope),
        "joint p": (calibration.p_value,),
        "C": _numbers(people.concordance(1)),
        "AUC": _numbers(people.auc(1)),
        "Brier": _numbers(people.brier(1)),
        "scaled Brier": _numbers(people.scaled_brier(1)),
    }
    for name in ("validation", "development"):
        y_of, risk_of = _load(folder, name)
        table = Evaluation(None, y_of, risk_of, horizon, event_ids=labels).net_benefit(
            1, thresholds=[0.2]
        )
        row = table.iloc[0]
        numbers = (row["net_benefit"], row["lower"], row["upper"])
        found[f"net benefit at 20 %, {name}"] = tuple(map(float, numbers))
    pseudo = people.pseudo_observations()[:, 1]
    observed_risks = {
        "nearest neighbours": neighbour_means(risk[:, 0], pseudo, 0.05),
        "subdistribution": subdistribution_risks(y, risk[:, 0], _HORIZON),
    }
    for method, seen in observed_risks.items():
        for name, value in _summaries(np.abs(seen - risk[:, 0])).items():
            found[f"{name}, {method}"] = (value,)
            field = name.lower().replace(" ", "_")
            found[f"{name}, loess"] = _numbers(getattr(calibration, field))
    marginal = aalen_johansen(check_survival_target(y), standard_error=True)
    observed, error = marginal(_HORIZON)[1], marginal.standard_error(_HORIZON)[1]
    ratio, factor = observed / risk.mean(), np.exp(1.959964 * error / observed)
    found["O/E, expected known"] = (float(ratio), float(ratio / factor), float(ratio * factor))
    auc = people.auc(1)
    value, half = float(auc.value[0]), 1.959964 * float(auc.standard_error[0])
    found["AUC, symmetric limits"] = (value, value - half, value + half)
    return found


def _numbers(found: Estimate) -> tuple[float, ...]:
    parts = (found.value, found.lower, found.upper)
    return tuple(float(np.ravel(part)[0]) for part in parts)


def table() -> str:
    """What the guide prints and what is recomputed, for the documentation."""
    record = json.loads(_RESULTS.read_text())
    lines = ["| score | printed | here |", "|---|---|---|"]
    for name, printed in record["printed"].items():
        decimals = max(len(f"{value:g}".partition(".")[2]) for value in printed)
        own = record["recomputed"][name][: len(printed)]
        cells = (_limits(printed, decimals), _limits(own, min(decimals + 1, 4)))
        lines.append(f"| {name} | {' | '.join(cells)} |".replace("-", "−"))
    return "\n".join(lines)


def _limits(values: list[float], decimals: int) -> str:
    value, *ends = (f"{value:.{decimals}f}" for value in values)
    return f"{value} ({' to '.join(ends)})" if ends else value


def main() -> None:
    """Print both side by side and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("SURVIVAL_DATA_DIR"))
    folder = parser.parse_args().folder
    if folder is None:
        parser.error("pass the folder with validation.csv, or set SURVIVAL_DATA_DIR")
    found = recomputed(Path(folder))
    for name, values in found.items():
        printed = " ".join(f"{value:g}" for value in _PRINTED.get(name, ()))
        print(f"{name:40s} {' '.join(f'{value:.4f}' for value in values):28s} {printed}")
    content = {"printed": _PRINTED, "recomputed": found, "notes": _NOTES}
    _RESULTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
