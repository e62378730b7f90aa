"""Writes the saved models of this folder: run once with the version that they represent.

    python tests/golden_models/make.py

They are of version 0.1.0 (format 1), small, and without time smoothing, so that what they predict
depends on the saved trees alone. `predictions.json` holds people, times and incidences. A later
version must read these folders and predict the same; do not write them again with it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from survival_objectives import SurvivalBoost
from survival_objectives.datasets import make_competing_risks

FOLDER = Path(__file__).parent
ENGINES = ("xgboost", "lightgbm", "catboost")
TIMES = [0.0, 0.3, 0.8, 1.5]


def main() -> None:
    """Train and save a model for every engine, and write what it predicts."""
    data = make_competing_risks(150, n_causes=2, n_features=2, random_state=0)
    rng = np.random.default_rng(0)
    X = data.X.assign(city=pd.Categorical(rng.choice(["north", "south", "west"], 150)))
    X.loc[rng.random(150) < 0.2, "x0"] = np.nan
    people = X.head(6)
    content = {
        "people": json.loads(people.to_json(orient="records", double_precision=15)),
        "times": TIMES,
        "incidence": {},
    }
    for engine in ENGINES:
        model = SurvivalBoost(
            engine,
            n_estimators=6,
            max_depth=2,
            refresh_every=3,
            time_smoothing=0,
            n_jobs=1,
            random_state=0,
        ).fit(X, data.y)
        shutil.rmtree(FOLDER / engine, ignore_errors=True)
        model.save(FOLDER / engine)
        incidence = model.predict_cumulative_incidence(people, TIMES)
        content["incidence"][engine] = incidence.round(9).tolist()
    (FOLDER / "predictions.json").write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
