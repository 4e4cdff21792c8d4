"""Devices: models by name, tables from files, plugins, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedselect.clock import CLOCKS, Clock, Devices, build_clock, constant, lognormal, read_devices, tiers
from fedselect.errors import ConfigError, DataError

COLUMNS = ["client", "seconds_per_sample", "down_kbps", "up_kbps"]


def write(path, rows, columns=COLUMNS):
    table = pd.DataFrame(rows, columns=columns)
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    return path


def test_models_have_the_medians_and_spreads_that_are_asked_for():
    many = lognormal(40_000, 1, seconds_per_sample=0.01, spread=0.5, link_spread=1.0, correlation=0.5)
    logs = np.log(many.seconds_per_sample / 0.01), np.log(many.down_kbps / 20_000)
    assert np.median(logs[0]) == pytest.approx(0.0, abs=0.02)
    assert logs[0].std() == pytest.approx(0.5, abs=0.02)
    assert logs[1].std() == pytest.approx(1.0, abs=0.03)
    assert np.corrcoef(-logs[0], logs[1])[0, 1] == pytest.approx(0.5, abs=0.03)
    assert np.allclose(many.up_kbps / many.down_kbps, 0.25)
    same = constant(3, seconds_per_sample=1, down_kbps=2, up_kbps=3)
    assert same.up_kbps.tolist() == [3.0] * 3
    again = lognormal(40_000, 1, seconds_per_sample=0.01, spread=0.5, link_spread=1.0, correlation=0.5)
    assert again.down_kbps.tobytes() == many.down_kbps.tobytes()


def test_tiers_have_their_shares():
    ordered = tiers(10, 0, shares=[1, 3, 1], shuffle=False)
    assert ordered.seconds_per_sample.tolist() == [0.002] * 2 + [0.005] * 6 + [0.02] * 2
    dealt = tiers(10, 0, shares=[1, 3, 1])
    assert sorted(dealt.seconds_per_sample) == ordered.seconds_per_sample.tolist()
    assert set(zip(dealt.seconds_per_sample, dealt.up_kbps, strict=True)) == {
        (0.002, 15_000.0),
        (0.005, 5_000.0),
        (0.02, 1_000.0),
    }


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_a_table_gives_every_client_its_device(tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    path = write(tmp_path / f"d.{ending}", [[1, 0.5, 10, 5], [0, 0.25, 20, 7]])
    read = CLOCKS.build("table", 2, 0, path=str(path))
    assert read.seconds_per_sample.tolist() == [0.25, 0.5]
    assert read.up_kbps.tolist() == [7.0, 5.0]


def test_fedscales_names_are_understood(tmp_path):
    read = read_devices(write(tmp_path / "d.csv", [[0, 50, 900.5]], ["client", "computation", "communication"]))
    assert (read.seconds_per_sample[0], read.down_kbps[0], read.up_kbps[0]) == (0.05, 900.5, 900.5)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[0, 0.5, 1, 1], [1, 0.0, 1, 1]], "seconds_per_sample must be positive; client 1 has 0"),
        ([[0, 0.5, 1, 1], [1, 1, -2, 1]], "down_kbps must be positive; client 1 has -2"),
        ([[0, 0.5, 1, 1], [1, 1, 2, np.nan]], "up_kbps must be positive; client 1 has nan"),
        ([[0, 0.5, 1, 1]], "2 clients need a device each; client 1 is not listed"),
        ([[1, 0.5, 1, 1], [1, 0.5, 1, 1]], "client 1 is listed twice"),
        ([[0, 0.5, 1, 1], [1, 1, 1, 1], [7, 1, 1, 1]], "lists client 7; the federation has clients 0 to 1"),
        ([[0, "fast", 1, 1]], "column 'seconds_per_sample' of a table of devices holds numbers"),
        ([[0.5, 1, 1, 1]], "column 'client' of a table of devices holds whole numbers from 0"),
        ([], "this table of devices has no row"),
    ],
)
def test_tables_that_cannot_be_are_refused(tmp_path, rows, says):
    with pytest.raises(DataError, match=says):
        read_devices(write(tmp_path / "d.csv", rows), 2)


def test_columns_are_checked(tmp_path):
    with pytest.raises(DataError, match="down_kbps is missing"):
        read_devices(write(tmp_path / "d.csv", [[0, 1.0]], COLUMNS[:2]))
    with pytest.raises(DataError, match="found 'colour' too"):
        read_devices(write(tmp_path / "d.csv", [[0, 1, 1, 1, 1]], [*COLUMNS, "colour"]))
    with pytest.raises(DataError, match=r"ends in \.csv, \.csv\.gz or \.parquet; got d\.xls"):
        read_devices("d.xls")


def test_options_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="down_kbps must be a positive number; got 0"):
        constant(3, down_kbps=0)
    with pytest.raises(ConfigError, match=r"correlation must lie in \[-1, 1\]"):
        lognormal(3, correlation=2)
    with pytest.raises(ConfigError, match="up_kbps needs one number for each of the 3 classes"):
        tiers(9, up_kbps=[1.0])
    with pytest.raises(ConfigError, match="2 clients cannot be of 3 classes"):
        tiers(2)
    with pytest.raises(ConfigError, match="up_kbps must be one number for each client"):
        Devices([1, 2], [1, 2], [1])


def test_an_own_model_of_devices_is_registered_like_ours(restoring):
    restoring(CLOCKS)

    @CLOCKS.register("halves")
    def halves(n_clients, seed=0, *, factor: float = 2.0):
        return Devices(np.linspace(1, factor, n_clients), np.ones(n_clients), np.ones(n_clients))

    built, _ = build_clock("halves", np.ones(3), 2, 0, {"factor": 3.0, "model_bytes": 1})
    assert built.devices.seconds_per_sample.tolist() == [1.0, 2.0, 3.0]

    @CLOCKS.register("none-at-all")
    def none_at_all(n_clients, seed=0):
        return None

    with pytest.raises(ConfigError, match="must give a Devices of 3 clients; got None"):
        build_clock("none-at-all", np.ones(3), 2)


@pytest.mark.parametrize("seconds", [["fast"], [0.1 + 0j], [10**400], None, 0.1, [], [[0.1]], [np.nan], [0.0]])
def test_devices_that_are_none_are_refused(seconds):
    with pytest.raises(ConfigError, match="devices: seconds_per_sample must be"):
        Devices(seconds, [1.0], [1.0])


@pytest.mark.parametrize("samples", [["many", "few"], [1 + 0j, 1], [10**400, 1], None, [1.0], [-1.0, 2.0], [np.nan, 1]])
def test_samples_of_a_clock_are_a_number_for_each_client(samples):
    with pytest.raises(ConfigError, match="clock: samples must be one number for each of 2 clients"):
        Clock(constant(2), samples)
    for size in (None, 0, 1.5, 2**70):
        with pytest.raises(ConfigError, match="clock: size must be"):
            build_clock("constant", [3, 3], size, 0, {"policy": "over-selection"})
