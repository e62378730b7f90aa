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
    load_kkbox,
    load_metabric,
    load_seer,
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


# ------------------------------------------------------------------------------------------ KKBox
TRANSACTIONS = """\
msno,payment_method_id,payment_plan_days,plan_list_price,actual_amount_paid,is_auto_renew,\
transaction_date,membership_expire_date,is_cancel
anna,41,30,149,149,1,20150101,20150131,0
anna,41,30,149,129,1,20150131,20150302,0
anna,38,30,149,149,0,20150501,20150531,0
bert,41,30,99,99,1,20170201,20170303,0
carl,40,7,0,0,0,20160101,20160108,0
carl,40,7,0,0,0,20160207,20160214,0
dora,41,30,149,149,1,20160601,20160701,0
dora,41,30,149,149,1,20160611,20160611,1
emil,41,30,149,149,1,20160601,20160701,0
emil,41,30,149,149,1,20160601,20160601,1
fritz,41,30,149,149,1,20170228,19700101,0
"""
MEMBERS = """\
msno,city,bd,gender,registered_via,registration_init_time
anna,1,33,female,7,20141202
bert,13,0,,9,20170131
carl,5,1051,male,3,20151231
"""


@pytest.fixture
def kkbox(tmp_path):
    (tmp_path / "transactions.csv").write_text(TRANSACTIONS)
    (tmp_path / "members_v3.csv").write_text(MEMBERS)
    return tmp_path


def test_kkbox_subscriptions(kkbox):
    data = load_kkbox(kkbox)
    check_dataset(data)
    assert data.event_names == ("censored", "churn")
    # anna renews on the last day, lapses for 60 days and comes back; bert is still a member when
    # the files end on 2017-02-28; carl renews on the last of the 30 days; dora cancels after 10.
    # emil cancels on the day he buys, and fritz's payment buys nothing: both last 0 days.
    assert_array_equal(data.y["event"], [1, 1, 0, 1, 1])
    assert_array_equal(data.y["duration"], [60, 30, 27, 44, 10])
    X = data.X
    assert_array_equal(X["n_previous"], [0, 1, 0, 0, 0])
    assert_array_equal(X["days_since_previous"], [np.nan, 60, np.nan, np.nan, np.nan])
    assert_array_equal(X["days_since_registration"], [30, 150, 1, 1, np.nan])
    assert_array_equal(X["age"], [33, 33, np.nan, np.nan, np.nan])
    assert X["payment_method"].tolist() == [41, 38, 41, 40, 41]
    assert X["amount_paid"].tolist() == [149, 149, 99, 0, 149]
    assert X["gender"].astype(object).where(X["gender"].notna(), None).tolist() == [
        "female",
        "female",
        None,
        "male",
        None,
    ]


def test_kkbox_reads_the_second_file_too(kkbox):
    header, *_ = TRANSACTIONS.splitlines()
    rows = "bert,41,30,99,99,1,20170303,20170402,0\ngina,41,30,99,99,1,20170331,20170430,0\n"
    (kkbox / "transactions_v2.csv").write_text(f"{header}\n{rows}")
    data = load_kkbox(kkbox)
    assert_array_equal(data.y["event"], [1, 1, 0, 1, 1])
    assert_array_equal(data.y["duration"], [60, 30, 58, 44, 10])


def test_kkbox_must_be_obtained_from_kaggle(tmp_path):
    with pytest.raises(FileNotFoundError, match="kaggle competitions download"):
        load_kkbox(tmp_path)
    (tmp_path / "transactions.csv").write_text(TRANSACTIONS)
    with pytest.raises(FileNotFoundError, match=r"lacks members_v3.csv. KKBox's rules"):
        load_kkbox(tmp_path)


# ------------------------------------------------------------------------------------------- SEER
SEER_NAMES = [
    "Patient ID",
    "Sex",
    "Age recode with single ages and 85+",
    "Regional nodes examined (1988+)",
    "Race recode (W, B, AI, API)",
    "COD to site recode",
    "Vital status recode (study cutoff used)",
    "SEER cause-specific death classification",
    "Survival months",
    "Survival months flag",
]
SEER_ROWS = [
    ["00000001", "Female", "61 years", "03", "White", "Alive", "Alive", "Alive", "0119", "ok"],
    ["00000002", "Female", "47 years", "00", "Black", "Breast", "Dead", "Dead", "0012", "ok"],
    [
        "00000003",
        "Male",
        "85+ years",
        "11",
        "White",
        "Diseases of Heart",
        "Dead",
        "x",
        "0081",
        "ok",
    ],
    ["00000004", "Female", "70 years", "Blank(s)", "Unknown", "Stomach", "Dead", "x", "0000", "ok"],
    ["00000005", "Female", "52 years", "01", "White", "Breast", "Dead", "Dead", "Unknown", "no"],
]


def write_seer(path, delimiter, header):
    lines = ([SEER_NAMES] if header else []) + SEER_ROWS
    text = pd.DataFrame(lines).to_csv(sep=delimiter, index=False, header=False)
    path.write_text(text)


def check_seer(data):
    check_dataset(data)
    assert data.event_names == ("censored", "Breast", "Diseases of Heart", "other")
    assert_array_equal(data.y["event"], [0, 1, 2, 3])
    assert_array_equal(data.y["duration"], [119, 12, 81, 0])
    # Nothing that is known only at the end may be a feature.
    assert list(data.X.columns) == [SEER_NAMES[i] for i in (1, 2, 3, 4)]
    assert_array_equal(data.X["Regional nodes examined (1988+)"], [3, 0, 11, np.nan])
    assert data.X["Race recode (W, B, AI, API)"].isna().tolist() == [False, False, False, True]
    assert "1 people without a duration" in data.description


@pytest.mark.parametrize(("name", "delimiter"), [("seer.csv", ","), ("seer.txt", "\t")])
def test_seer_with_names_in_the_first_line(name, delimiter, tmp_path):
    write_seer(tmp_path / name, delimiter, header=True)
    check_seer(load_seer(tmp_path))


@pytest.mark.parametrize("header", [False, True])
def test_seer_with_the_dictionary_of_the_export(header, tmp_path):
    write_seer(tmp_path / "export.txt", ";", header)
    options = ["[Export Options]", "GZipped=false", "Field delimiter=semicolon"]
    options += [f"Variable names included={str(header).lower()}", "[Variables]"]
    options += [f"Var{i}Name={name}" for i, name in enumerate(SEER_NAMES, start=1)]
    (tmp_path / "export.dic").write_text("\r\n".join(options))
    check_seer(load_seer(tmp_path / "export.txt"))


def test_seer_must_be_obtained_by_agreement(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"https://seer.cancer.gov/data/access.html"):
        load_seer(tmp_path)


def test_seer_errors_name_the_value(tmp_path):
    write_seer(tmp_path / "seer.csv", ",", header=True)
    with pytest.raises(ValueError, match=r"has the cause 'Lung'.*'Breast'.*choose `causes`"):
        load_seer(tmp_path, causes=["Lung"])
    write_seer(tmp_path / "seer.csv", ",", header=False)
    with pytest.raises(ValueError, match="has no column 'COD to site recode'; its columns begin"):
        load_seer(tmp_path)
