"""The report of a federation before any run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.data import DATASETS, Federation
from fedselect.errors import ConfigError
from fedselect.reports import read_report
from fedselect.reports.federation import rates_figure

CONFIG = """
[experiment]
name = "before"
rounds = {rounds}
clients_per_round = 3

[data]
name = "{data}"
n_clients = {clients}

[availability]
name = "{availability}"
"""


def config(folder, data="digits", clients=12, availability="sin-lognormal", rounds=20):
    path = folder / "before.toml"
    path.write_text(CONFIG.format(data=data, clients=clients, availability=availability, rounds=rounds))
    return path


def values(report):
    return {row[0].text: row[1].value for row in report.tables[0].rows}


def test_numbers_tables_and_pictures_are_those_of_the_federation(tmp_path):
    report = read_report(config(tmp_path))
    federation = DATASETS.build("digits", n_clients=12)
    availability = AVAILABILITY.build("sin-lognormal", federation, 0)
    rates = np.stack([availability.rates(t) for t in range(20)], axis=1)
    told = values(report)
    assert told["number of clients"] == 12
    assert told["samples"] == federation.sizes.sum()
    assert told["fewest clients expected"] == pytest.approx(rates.sum(axis=0).min())
    assert told["share of scarce rounds"] == np.mean(rates.sum(axis=0) < 3)
    clients = report.tables[1]
    assert [cell.value for cell in (row[-1] for row in clients.rows)] == pytest.approx(rates.mean(axis=1))
    assert [picture.key for picture in report.pictures] == ["who-has-what", "graph", "who-is-there"]
    assert "shown" not in report.pictures[0].caption
    assert all(picture.png.startswith(b"\x89PNG") for picture in report.pictures)
    assert report.notes == ()
    assert not (tmp_path / "runs").exists()


@pytest.mark.thorough
def test_many_clients_are_shown_in_part_and_that_is_said(tmp_path):
    report = read_report(config(tmp_path, data="synthetic", clients=320, rounds=450))
    has, there = report.pictures
    assert "300 of the 320 clients are shown, evenly spaced by size, largest first" in has.caption
    bars = [patch.get_data() for patch in has.figure.axes[1].patches]
    assert sum((top - bottom).sum() for top, _, bottom in bars) == pytest.approx(
        300
    )  # shares of the shown add up to one each
    assert "mean of up to 2 of the 320 clients" in there.caption
    assert "200 of the 450 rounds are looked at" in there.caption
    assert report.notes == ("The 3DG is not drawn: a picture of 320 clients shows nothing.",)


def test_targets_and_an_availability_without_rates(tmp_path, monkeypatch):
    """Parts of one's own: labels that are real numbers, and who is there without how likely that was."""
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(5 + k, 2)), rng.normal(size=5 + k)) for k in range(6)]

    class Alternating:
        def available(self, round):
            return np.arange(6) % 2 == round % 2

    federation = Federation.from_tensors(pairs, pairs[0], name="reals")
    monkeypatch.setattr("fedselect.experiments.config.Experiment.federation", lambda self: federation)
    monkeypatch.setattr("fedselect.experiments.running.AVAILABILITY.build", lambda *args, **options: Alternating())
    report = read_report(config(tmp_path, rounds=4))
    assert [picture.key for picture in report.pictures] == ["who-has-what", "who-is-there"]
    assert "its targets" in report.pictures[0].caption
    assert report.notes == (
        "'sin-lognormal' states no rates: shown is who is there under this seed.",
        "The 3DG is not drawn: it is a graph of label distributions, and these labels are real numbers.",
    )
    assert values(report)["mean availability rate"] == 0.5
    assert "classes" not in values(report)


def test_expected_clients_stand_over_their_rounds():
    rates = np.array([[1.0, 0.0], [0.5, 0.5]])
    figure = rates_figure(np.array([0, 9]), rates, size=1)
    expected, selected = figure.axes[1].lines
    assert expected.get_xydata().tolist() == [[1, 1.5], [10, 0.5]]
    assert list(selected.get_ydata()) == [1, 1]


def test_command_writes_the_page_beside_the_configuration(tmp_path, call):
    code, out, err = call("report", str(config(tmp_path)), "--as", "html,md", "--format", "json")
    assert (code, err) == (0, "")
    folder = tmp_path / "before-report"
    assert str(folder / "report.html") in json.loads(out)["written"]
    page = (folder / "report.html").read_text()
    assert "before: the federation" in page
    assert 'alt="Two bar charts with a bar a client: samples' in page


def test_other_files_are_a_sentence(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a configuration")
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        read_report(path)
