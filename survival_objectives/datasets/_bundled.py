"""Data that come with the package; sources and licences are in data/README.md."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd

from survival_objectives.datasets._dataset import Dataset


def load_covid_hospital() -> Dataset:
    """Hospital stays of 2675 people with COVID-19: death competes with leaving alive.

    People admitted in Israel from 6 March to 4 May 2020 (MIT licence, see
    data/README.md beside this module). The data come with the package.

    Returns
    -------
    Dataset
        X: ``age`` (lower end of a five-year group; 0 for those below 20), ``male``, ``severity`` at
        admission (1 mild, 2 moderate, 3 severe), ``admission_day`` (since 6 March). y: ``event``
        0 = still in hospital when the data end (11 %), 1 = death (7 %), 2 = discharge (82 %);
        ``duration`` is the day of the stay, the day of admission being 1.

    Examples
    --------
    >>> data = load_covid_hospital()
    >>> data.event_names
    ('censored', 'death', 'discharge')
    >>> data.y["event"].value_counts().sort_index().tolist()
    [286, 198, 2191]
    """
    source = files("survival_objectives.datasets") / "data" / "covid_hospital.csv"
    with source.open("r", encoding="ascii") as file:
        table = pd.read_csv(file)
    y = table[["event", "duration"]].astype({"duration": float})
    return Dataset(
        X=table.drop(columns=["event", "duration"]),
        y=y,
        event_names=("censored", "death", "discharge"),
        description=(
            "First hospital stay of 2675 people with COVID-19, Israel, March to May 2020. "
            "Duration is the day of the stay."
        ),
    )
