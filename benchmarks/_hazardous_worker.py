"""Fits hazardous in an interpreter of its own: INPUT.npz -> OUTPUT.npz, with CPU seconds.

Runs where the package under test is not installed, so it imports hazardous and numpy only.
"""

import resource
import sys
import time
import warnings

import numpy as np
import pandas as pd
import sklearn
from hazardous import SurvivalBoost


def main() -> None:
    source, destination = sys.argv[1:]
    warnings.simplefilter("ignore")
    data = np.load(source)
    y = pd.DataFrame({"event": data["event"], "duration": data["duration"]})
    model = SurvivalBoost(random_state=int(data["seed"]), show_progressbar=False)
    begin = time.process_time()
    model.fit(data["X"], y)
    fitted = time.process_time()
    curves = model.predict_cumulative_incidence(data["X_test"], data["times"])
    done = time.process_time()
    np.savez(
        destination,
        curves=curves,
        fit_cpu=fitted - begin,
        predict_cpu=done - fitted,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        sklearn=sklearn.__version__,
    )


if __name__ == "__main__":
    main()
