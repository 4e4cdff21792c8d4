"""Maintenance of the shipped library only ever improves it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from fedselect.recording import recipe
from solvers import instances
from solvers.certificates import Certificate, check
from solvers.instances.library import unpack
from tests.tools import maintain_library as maintenance

NAMES = ["fedgs-digits-twolabel-n30-m5-lognormal-r10", "fedau-cutoff-digits-n30-t200-r0"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty library, and two recipes."""
    (tmp_path / "index.json").write_text("[]")
    monkeypatch.setattr(maintenance, "recipes", lambda: tuple(recipe(name) for name in NAMES))
    return tmp_path


def index(folder):
    return {entry["name"]: entry for entry in json.loads((folder / "index.json").read_text())}


def test_a_library_is_made_from_nothing_as_it_is_shipped(folder):
    made = maintenance.maintain(folder, seconds=20.0)
    assert [each.name for each in made] == NAMES
    for each in made:
        shipped = instances.info(each.name)
        assert each.proved
        assert (each.digest, each.source, each.command) == (shipped.digest, shipped.source, shipped.command)
        problem, best = unpack((folder / "data" / f"{each.name}.xz").read_bytes(), each.name)
        assert problem.objective(best) == each.best_known
    assert index(folder) == {each.name: asdict(each) for each in made}


def test_what_is_known_only_improves(folder):
    """A good value stays when a later method is worse; a better bound and a better value are taken."""
    name = NAMES[0]
    maintenance.maintain(folder, [name], ["random"], 0.05)
    weak = index(folder)[name]
    assert weak["bound"] is None
    assert not weak["proved"]
    maintenance.maintain(folder, [name], ["tabu"], 1.0, unproved=True)
    better = index(folder)[name]
    assert better["best_known"] >= weak["best_known"]
    maintenance.maintain(folder, [name], ["random"], 0.05, unproved=True)
    assert index(folder)[name]["best_known"] == better["best_known"]
    maintenance.maintain(folder, [name], ["branch-and-bound"], 20.0, unproved=True)
    done = index(folder)[name]
    assert done["proved"]
    assert "branch-and-bound" in done["method"]


def test_instances_without_a_recipe_go(folder, monkeypatch):
    maintenance.maintain(folder, seconds=5.0)
    monkeypatch.setattr(maintenance, "recipes", lambda: (recipe(NAMES[1]),))
    maintenance.maintain(folder)
    assert set(index(folder)) == {NAMES[1]}
    assert [path.stem for path in (folder / "data").iterdir()] == [NAMES[1]]


def test_a_changed_recipe_is_recorded_anew_on_request(folder, monkeypatch):
    maintenance.maintain(folder, seconds=5.0)
    before = index(folder)[NAMES[1]]
    changed = recipe(NAMES[1])
    longer = replace(changed, tables=changed.tables | {"experiment": changed.tables["experiment"] | {"rounds": 400}})
    monkeypatch.setattr(maintenance, "recipes", lambda: (recipe(NAMES[0]), longer))
    maintenance.maintain(folder, seconds=5.0)
    assert index(folder)[NAMES[1]] == before
    maintenance.maintain(folder, seconds=5.0, again=True)
    after = index(folder)[NAMES[1]]
    assert after["digest"] != before["digest"]
    assert after["proved"]
    assert after["best_known"] < before["best_known"]  # ln T / T is smaller


def test_the_ledger_is_written_with_certificates_that_check(tmp_path):
    """Of the instances that are named, made again: the file of the certificate, and what it proves in the ledger."""
    name = "cafed-clustered-n24-r50"
    maintenance.enter(tmp_path, [name], 20.0, who="nobody", again=True)
    rows = {row["name"]: row for row in json.loads((tmp_path / "ledger.json").read_text())}
    found = Certificate.load(tmp_path / "certificates" / f"{name}.npz")
    assert check(instances.load(name), found) == rows[name]["certified"]
    assert rows[name]["value"]["who"] == "fedselect"  # what was found first stays with the finder
    assert set(rows) == set(instances.names())
