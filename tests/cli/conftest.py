"""A file of people, a model trained on it by the command line, and a way to run commands."""

import shutil
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from survival_objectives.cli import main


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys):
    def command(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Run(code, captured.out, captured.err)

    return command


def simulated_people(n_people, seed=0):
    generator = np.random.default_rng(seed)
    age = generator.integers(30, 85, n_people)
    stage = generator.choice(["I", "II", "III"], n_people)
    scale = 20 * np.exp(-(age - 57) / 20) / np.where(stage == "III", 2, 1)
    death, relapse, censoring = generator.exponential([scale, 2 * scale, np.full(n_people, 30)])
    first = np.argmin([censoring, death, relapse], axis=0)
    return pd.DataFrame(
        {
            "patient_id": generator.permutation(n_people) + 1000,
            "time": np.minimum.reduce([censoring, death, relapse]).round(2),
            "status": np.array(["alive", "death", "relapse"])[first],
            "age": age,
            "stage": stage,
            "smoker": generator.choice([True, False], n_people),
            "lab value (mg/l)": np.where(
                generator.random(n_people) < 0.1, np.nan, generator.gamma(2, 3, n_people).round(2)
            ),
        }
    )


@pytest.fixture(scope="session")
def people():
    return simulated_people(240)


@pytest.fixture(scope="session")
def trained(people, tmp_path_factory):
    """A folder with people.csv and the model that ``fit`` made of it."""
    folder = tmp_path_factory.mktemp("trained")
    people.to_csv(folder / "people.csv", index=False)
    arguments = "--duration time --event status --rounds 30 --test-size 0.3 --threads 1 --no-report"
    files = [str(folder / "people.csv"), "--out", str(folder / "model")]
    assert main(["fit", *files, *arguments.split(), "--quiet"]) == 0
    return folder


@pytest.fixture
def workplace(trained, tmp_path, monkeypatch):
    """A copy of that folder as current directory."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
