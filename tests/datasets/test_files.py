"""Loaders on small files in the publishers' formats; downloads from a server on this machine."""

import functools
import hashlib
import http.server
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._people import check_features, check_survival_target
from survival_objectives.datasets import (
    Dataset,
    load_covid_hospital,
    load_gbsg,
    load_metabric,
    load_support,
)
from survival_objectives.datasets import _deepsurv as deepsurv
from survival_objectives.datasets._files import Download, fetch, read_table

DEEPSURV = [(load_metabric, "metabric"), (load_support, "support"), (load_gbsg, "gbsg")]


@pytest.fixture(autouse=True)
def no_data_dir(monkeypatch, tmp_path):
    """Neither the user's data nor their cache may decide a test."""
    monkeypatch.delenv("SURVIVAL_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def check_dataset(data: Dataset) -> None:
    """What every loader promises."""
    assert list(data.y.columns) == ["event", "duration"]
    assert len(data.X) == len(data.y) == data.n_samples
    assert data.X.index.equals(data.y.index)
    assert not {"event", "duration"} & set(data.X.columns)
    target = check_survival_target(data.y.to_numpy(), require_event=False)
    assert target.event_ids.max() <= data.n_causes
    assert data.event_names[0] == "censored"
    assert "uration" in data.description
    check_features(data.X)


# ---------------------------------------------------------------------------------------- bundled
def test_covid_hospital_is_bundled_and_whole():
    data = load_covid_hospital()
    check_dataset(data)
    assert data.event_names == ("censored", "death", "discharge")
    assert_array_equal(np.bincount(data.y["event"]), [286, 198, 2191])
    assert data.y["duration"].min() == 1
    assert not data.X.isna().any(axis=None)
    # Known medicine as a check on the coding: death follows age and severity.
    death = data.y["event"] == 1
    by_severity = death.groupby(data.X["severity"]).mean()
    assert by_severity.is_monotonic_increasing
    assert death[data.X["age"] >= 80].mean() > 0.3 > 0.01 > death[data.X["age"] < 50].mean()


# --------------------------------------------------------------------------------------- DeepSurv
@pytest.fixture
def table():
    generator = np.random.default_rng(0)
    x = pd.DataFrame(generator.normal(size=(6, 3)).astype(np.float32), columns=["x0", "x1", "x2"])
    return x.assign(duration=np.array([0, 1.5, 2, 3, 4, 5], np.float32), event=[0, 1, 1, 0, 1, 1])


@pytest.mark.parametrize(("load", "name"), DEEPSURV)
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv", ".csv.gz"])
def test_pycox_tables_are_read(load, name, suffix, table, tmp_path):
    path = tmp_path / f"{name}{suffix}"
    if suffix in (".parquet", ".feather"):
        pytest.importorskip("pyarrow")
        (table.to_parquet if suffix == ".parquet" else table.to_feather)(path)
    else:
        table.to_csv(path, index=False)
    data = load(path)
    check_dataset(data)
    assert_allclose(data.X, table[["x0", "x1", "x2"]], rtol=1e-6)
    assert_array_equal(data.y["event"], table["event"])
    assert_array_equal(data.y["duration"], table["duration"])


def test_deepsurv_hdf5_is_train_then_test(table, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "metabric_IHC4_clinical_train_test.h5"
    with h5py.File(path, "w") as file:
        for group, rows in (("train", table[:4]), ("test", table[4:])):
            file[f"{group}/x"] = rows[["x0", "x1", "x2"]].to_numpy()
            file[f"{group}/t"] = rows["duration"].to_numpy()
            file[f"{group}/e"] = rows["event"].to_numpy().astype(np.int32)
    data = load_metabric(tmp_path)
    assert_array_equal(data.X, table[["x0", "x1", "x2"]])
    assert_array_equal(data.y["duration"], table["duration"])


def test_the_data_dir_is_searched(table, tmp_path, monkeypatch):
    table.to_csv(tmp_path / "gbsg.csv", index=False)
    monkeypatch.setenv("SURVIVAL_DATA_DIR", str(tmp_path))
    assert load_gbsg().n_samples == 6


@pytest.mark.parametrize(("load", "name"), DEEPSURV)
def test_a_missing_file_comes_with_instructions(load, name, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        load(tmp_path)
    message = str(error.value)
    assert f"{name}.parquet" in message
    assert str(tmp_path) in message
    assert f"load_{name}(download=True) to fetch https://" in message
    assert "SURVIVAL_DATA_DIR" in message


def test_a_table_of_other_columns_is_refused(table, tmp_path):
    table.rename(columns={"event": "status"}).to_csv(tmp_path / "metabric.csv", index=False)
    with pytest.raises(ValueError, match=r"'status'\]; expected x0, x1, ..., `duration`"):
        load_metabric(tmp_path)
    (tmp_path / "metabric.xls").touch()
    with pytest.raises(ValueError, match=r"'metabric.xls' is of unknown format"):
        load_metabric(tmp_path / "metabric.xls")


@pytest.mark.parametrize(("suffix", "module"), [(".parquet", "pyarrow"), (".h5", "h5py")])
def test_an_absent_reader_is_named(suffix, module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    path = tmp_path / f"metabric{suffix}"
    path.touch()
    with pytest.raises(ImportError, match=rf"Reading metabric{suffix} needs {module}. Install"):
        read_table(path)


# -------------------------------------------------------------------------------------- downloads
class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(tmp_path):
    """URL of a server on this machine, and the folder it serves."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}", folder
        httpd.shutdown()
        thread.join()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_download_is_checked_and_kept(server, tmp_path):
    url, served = server
    (served / "data.csv").write_bytes(b"x0\n1\n")
    source = Download(f"{url}/data.csv", sha256(b"x0\n1\n"), "CC0")
    path = fetch(source, tmp_path / "kept" / "here")
    assert path.read_bytes() == b"x0\n1\n"
    (served / "data.csv").unlink()
    assert fetch(source, path.parent) == path  # No second request.
    assert [file.name for file in path.parent.iterdir()] == ["data.csv"]


def test_a_damaged_copy_in_the_cache_is_replaced(server, tmp_path):
    url, served = server
    (served / "data.csv").write_bytes(b"good")
    (tmp_path / "data.csv").write_bytes(b"half")
    path = fetch(Download(f"{url}/data.csv", sha256(b"good"), "CC0"), tmp_path)
    assert path.read_bytes() == b"good"


def test_a_wrong_checksum_leaves_nothing_behind(server, tmp_path):
    url, served = server
    (served / "data.csv").write_bytes(b"changed")
    target = tmp_path / "cache"
    with pytest.raises(ValueError, match=f"SHA-256 {sha256(b'changed')}, expected {'0' * 64}"):
        fetch(Download(f"{url}/data.csv", "0" * 64, "CC0"), target)
    assert list(target.iterdir()) == []


def test_an_unreachable_file_is_named(server, tmp_path):
    url, _ = server
    with pytest.raises(OSError, match=r"Could not download .*/absent.csv: HTTP Error 404"):
        fetch(Download(f"{url}/absent.csv", "0" * 64, "CC0"), tmp_path)


def test_a_loader_downloads_only_when_asked(server, table, tmp_path, monkeypatch):
    url, served = server
    table.to_csv(served / "support.csv", index=False)
    source = Download(f"{url}/support.csv", sha256((served / "support.csv").read_bytes()), "CC0")
    preparation = deepsurv._Preparation("support", "death", "Duration in days.", source)
    monkeypatch.setattr(deepsurv, "_SUPPORT", preparation)
    monkeypatch.setenv("SURVIVAL_DATA_DIR", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError):
        load_support()
    with pytest.raises(FileNotFoundError):
        load_support(tmp_path / "mistyped.csv", download=True)
    check_dataset(load_support(download=True))
    (served / "support.csv").unlink()
    assert load_support().n_samples == 6
