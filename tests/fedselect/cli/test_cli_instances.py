"""``fedselect instances``: list, show, export, record, fetch."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedselect.recording import Recipe, recipe
from solvers import instances, load
from solvers.dispersion import DispersionProblem, read_mdplib, to_qubo, write_mdplib
from solvers.instances import digest

SMALL = "fedgs-digits-twolabel-n30-m5-lognormal-r10"

CONFIG = """
[experiment]
name = "mine"
rounds = 8
clients_per_round = 3
[data]
n_clients = 12
[selector]
name = "fedgs"
method = "local-search"
"""


def test_list_filters(call):
    everything = json.loads(call("instances", "list", "--format", "json")[1])
    assert [entry["name"] for entry in everything] == instances.names()
    found = json.loads(call("instances", "list", "--family", "weighting", "--at-most", 30, "--format", "json")[1])
    assert {entry["family"] for entry in found} == {"weighting"}
    assert 0 < len(found) < len(instances.names("weighting"))
    hard = json.loads(call("instances", "list", "--unproved", "--format", "json")[1])
    solved = json.loads(call("instances", "list", "--proved", "--format", "json")[1])
    assert len(hard) + len(solved) == len(everything)
    assert not any(entry["proved"] for entry in hard)
    assert all(
        entry["n"] >= 500 for entry in json.loads(call("instances", "list", "--at-least", 500, "--format", "json")[1])
    )


def test_list_as_text(call):
    code, out, _ = call("instances", "list", "--family", "participation")
    assert code == 0
    assert "fedau-cutoff-digits-n30-t200-r0" in out
    assert "5 instances, 5 proved" in out
    open_ones = json.loads(call("instances", "list", "--unproved", "--format", "json")[1])
    out = call("instances", "list", "--unproved")[1]
    assert open_ones
    for known in open_ones:
        gap = abs(known["bound"] - known["best_known"]) / abs(known["best_known"])
        assert f"gap {100 * gap:.2g} %" in out


def test_show(call, tmp_path):
    found = json.loads(call("instances", "show", SMALL, "--format", "json")[1])
    known = instances.info(SMALL)
    assert (found["digest"], found["best_known"], found["command"]) == (known.digest, known.best_known, known.command)
    assert found["data"]["size"] == 5
    assert found["best"] == instances.best(SMALL).tolist()
    code, out, _ = call("instances", "show", SMALL)
    assert code == 0
    assert "best selection" in out
    path = instances.load(SMALL).save(tmp_path / "p.npz")
    found = json.loads(call("instances", "show", path, "--format", "json")[1])
    assert found["digest"] == known.digest
    assert "best_known" not in found


def test_export_to_every_format(call, tmp_path):
    problem = instances.load(SMALL)
    for ending in ("npz", "lp", "mps", "pb", "pbtxt", "qplib", "qubo"):
        path = tmp_path / f"it.{ending}"
        code, out, err = call("instances", "export", SMALL, path, "--format", "json")
        assert (code, err) == (0, "")
        assert json.loads(out)["bytes"] == path.stat().st_size > 0
    assert digest(load(tmp_path / "it.npz")) == digest(problem)
    assert (tmp_path / "it.lp").read_text().startswith("Maximize")
    assert "QUADOBJ" in (tmp_path / "it.mps").read_text()
    assert b"variables" in (tmp_path / "it.pbtxt").read_bytes()


def test_the_exported_qubo_has_the_objective(call, tmp_path):
    """Energies, computed from the text alone, are minus the objective less the offset where a decision is feasible."""
    call("instances", "export", SMALL, tmp_path / "it.qubo")
    problem, best = instances.load(SMALL), instances.best(SMALL)
    comment, head, *lines = (tmp_path / "it.qubo").read_text().splitlines()
    assert head.split()[:5] == ["p", "qubo", "0", str(problem.n), str(problem.n)]
    assert len(lines) == sum(map(int, head.split()[4:]))
    energy = sum(float(q) * best[int(i)] * best[int(j)] for i, j, q in map(str.split, lines))
    q, offset, _ = to_qubo(problem)
    assert energy == pytest.approx(float(best @ q @ best), rel=1e-12)
    assert f"energy + {offset!r})" in comment
    assert -(energy + offset) == pytest.approx(problem.objective(best), abs=1e-9)


def test_mdplib_goes_in_and_out(call, tmp_path):
    h = np.arange(4.0)[:, None] + np.arange(4.0)
    np.fill_diagonal(h, 0)
    write_mdplib(DispersionProblem(h, size=2, weight=0.5), tmp_path / "a.txt")
    assert call("instances", "export", tmp_path / "a.txt", tmp_path / "b.txt", "--size", 3)[0] == 0
    again = read_mdplib(tmp_path / "b.txt")
    assert again.size == 3
    np.testing.assert_array_equal(again.distances, h)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["export", SMALL, "it.xml"], "the file must end in .npz, .lp"),
        (["export", "fedau-cutoff-digits-n30-t200-r0", "it.lp"], "CutoffProblems can be written as .npz alone"),
        (["export", SMALL, "it.txt"], "an MDPLIB file has no place for costs"),
        (["export", SMALL, "nowhere/it.lp"], "cannot write nowhere/it.lp: No such file"),
        (["show", "nothing"], "the library has no instance 'nothing'"),
        (["list", "--family", "dispersal"], "did you mean 'dispersion'"),
        (["record", "nothing"], "there is no recipe for an instance 'nothing'"),
        (["record", "mine.toml"], "say which rounds to record"),
        (["record", "mine.toml", "--rounds", "9"], "rounds to record lie between 0 and 7; got [9]"),
        (["record", "mine.toml", "--rounds", "a"], "rounds read like '0-4' or '0,3,7'; got 'a'"),
        (["record", "mine.toml", "--rounds", "2", "-c", "selector.name=uniform"], "has no option 'method'"),
        (["fetch", "nowhere"], "there is no file or folder nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(call, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(CONFIG)
    code, out, err = call("instances", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("fedselect: ")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_record_one_s_own(call, tmp_path):
    config = tmp_path / "mine.toml"
    config.write_text(CONFIG)
    arguments = ("instances", "record", config, "--rounds", "2,5", "--format", "json")
    code, out, _ = call(*arguments, "--out", tmp_path / "one", "-c", "selector.alpha=2.0")
    assert code == 0
    first, second = json.loads(out)
    assert [first["name"], second["name"]] == ["mine-r2", "mine-r5"]
    assert digest(load(first["file"])) == first["digest"] != second["digest"]
    again = json.loads(call(*arguments, "--out", tmp_path / "two", "-c", "selector.alpha=2.0")[1])
    assert [entry["digest"] for entry in again] == [first["digest"], second["digest"]]
    other = json.loads(call(*arguments, "--out", tmp_path / "three")[1])
    assert other[0]["digest"] != first["digest"]
    solved = json.loads(call("solve", first["file"], "--require-proof", "--format", "json")[1])
    assert solved["status"] == "optimal"


def test_record_a_problem_that_no_selector_solves(call, tmp_path):
    config = tmp_path / "mine.toml"
    config.write_text(CONFIG)
    code, out, _ = call("instances", "record", config, "--rounds", 0, "--problem", "cutoff", "--out", tmp_path)
    assert code == 0
    assert "CutoffProblem, 12 clients" in out


def test_record_from_the_library_says_whether_the_bits_are_the_same(call, tmp_path, monkeypatch):
    name = "fedau-cutoff-digits-n30-t200-r0"
    code, out, _ = call("instances", "record", name, "--out", tmp_path)
    assert code == 0
    assert "to the library's bits" in out
    assert digest(load(tmp_path / f"{name}.npz")) == instances.info(name).digest
    other = next(recipe("fedau-cutoff-digits-n100-t2000-r0").record())[1]
    monkeypatch.setattr(Recipe, "record", lambda self, only: iter([(only, other)]))
    code, out, err = call("instances", "record", name, "--out", tmp_path)
    assert code == 4
    assert "NOT to the library's bits" in out
    assert err == ""


def test_fetch(call, tmp_path):
    (tmp_path / "there").mkdir()
    h = 1.0 - np.eye(5)
    write_mdplib(DispersionProblem(h, size=2, weight=0.5), tmp_path / "there" / "GKD-z_1_n5_m2.txt")
    (tmp_path / "known.csv").write_text("name,m,best_known\nGKD-z_1_n5_m2,2,1.0\nGKD-z_1_n5_m2,3,3.0\n")
    arguments = ("instances", "fetch", (tmp_path / "there").as_posix(), "--out", tmp_path / "here")
    code, out, err = call(*arguments, "--best-known", tmp_path / "known.csv", "--format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [(entry["size"], entry["best_known"]) for entry in found] == [(2, 1.0), (3, 3.0)]
    for entry in found:
        solved = json.loads(call("solve", entry["path"], "--size", entry["size"], "--format", "json")[1])
        assert solved["objective"] == entry["best_known"]
    assert "GKD-z_1_n5_m2.txt" in call(*arguments)[1]
