"""Files of other people's formats on the command line, several instances at once, and linear models to export."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from solvers import solve
from solvers.dispersion import DispersionProblem, PointDispersionProblem, write_mdplib

SMALL = "fedgs-digits-twolabel-n30-m5-lognormal-r10"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one file of every format; it is the working directory."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    points = rng.random((6, 2)).round(3)
    far = np.linalg.norm(points[:, None] - points, axis=2)
    np.save("points.npy", points)
    np.save("square.npy", rng.random((4, 4)))  # four points, not distances
    np.save("far.npy", far)
    cells = "".join(f"{place} {x} {y}\n" for place, (x, y) in enumerate(points, 1))
    (tmp_path / "six.tsp").write_text(f"NAME: six\nDIMENSION: 6\nNODE_COORD_SECTION\n{cells}EOF\n")
    (tmp_path / "graph.dat").write_text("c a triangle and a tail\n5 5\n1 2\n2 3\n1 3\n3 4\n4 5\n")
    write_mdplib(DispersionProblem(far, size=2, weight=0.5), tmp_path / "a1.txt")
    write_mdplib(DispersionProblem(2 * far, size=3, weight=0.5), tmp_path / "a2.txt")
    return points, far


def solved(call, *arguments):
    code, printed, error = call("solve", *arguments, "--format", "json")
    assert code == 0, error
    return json.loads(printed)


def test_every_format_is_the_problem_it_states(folder, call):
    _, far = folder
    best = solve(DispersionProblem(far, None, size=3, weight=0.5), "brute-force").objective
    for file in ("far.npy", "points.npy", "six.tsp"):
        found = solved(call, file, "--size", 3)
        assert found["objective"] == pytest.approx(best, rel=1e-6)
    kinds = [solved(call, file, "--size", 2)["type"] for file in ("far.npy", "square.npy", "six.tsp")]
    assert kinds == ["DispersionProblem", "PointDispersionProblem", "PointDispersionProblem"]
    assert solved(call, "graph.dat", "--size", 3)["selected"] == [0, 1, 2]


def test_a_pattern_is_a_line_each(folder, call):
    found = solved(call, "a*.txt", "--method", "brute-force")
    assert [entry["instance"] for entry in found] == ["a1.txt", "a2.txt"]
    assert found[0]["objective"] == pytest.approx(folder[1].max())
    sized = solved(call, "a1.txt", "a2.txt", "--size", 3, "--method", "brute-force", "--out", "both.json")
    assert sized[1]["objective"] == pytest.approx(2 * sized[0]["objective"])
    assert [len(entry["x"]) for entry in json.loads(Path("both.json").read_text())] == [6, 6]
    code, printed, _ = call("solve", "a?.txt", "--method", "greedy", "--require-proof")
    assert code == 4
    assert "a1.txt" in printed
    assert "a2.txt" in printed
    code, printed, _ = call("instances", "show", "a*.txt", SMALL)
    assert code == 0
    assert all(name in printed for name in ("a1.txt", "a2.txt", SMALL))
    names = [
        entry["name"] for entry in json.loads(call("instances", "show", "fedgs-digits-*-n30-*", "--format", "json")[1])
    ]
    assert SMALL in names


def test_what_stood_before_a_bad_file_is_printed(folder, call):
    Path("a3.txt").write_text("not one\n")
    code, printed, error = call("solve", "a*.txt", "--method", "greedy")
    assert (code, error.count("\n")) == (2, 1)
    assert "a3.txt is not an MDPLIB file" in error
    assert "a2.txt" in printed


@pytest.mark.parametrize(
    ("others", "options", "expected"),
    [
        (["a1.txt"], [], 2),
        (["never.lp", "a1.txt"], [], 3),
        (["a1.txt"], ["--require-proof"], 4),
        (["never.lp", "a1.txt"], ["--require-proof"], 4),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_bad_file_hides_no_exit_code_of_the_others(folder, call, others, options, expected, is_first):
    Path("bad.txt").write_text("not one\n")
    rows = " c: x1 + x2 = 2\n d: x1 = 0"
    Path("never.lp").write_text(f"Minimize\n obj: x1 + x2\nSubject To\n{rows}\nBinary\n x1 x2\nEnd\n")
    names = ["bad.txt", *others] if is_first else [*others, "bad.txt"]
    code, printed, error = call("solve", *names, "--method", "greedy", *options, "--format", "json")
    assert code == expected
    assert error.count("\n") == 1
    assert "bad.txt is not an MDPLIB file" in error
    found = json.loads(printed)
    assert [entry["instance"] for entry in found] == names
    statuses = {"bad.txt": "refused", "never.lp": "infeasible", "a1.txt": "feasible"}
    assert [entry["status"] for entry in found] == [statuses[name] for name in names]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["points.npy"], "points.npy does not say how many to choose: give --size"),
        (["six.tsp"], "six.tsp does not say how many to choose: give --size"),
        (["graph.dat"], "graph.dat does not say how many to choose: give --size"),
        ([SMALL, "--size", 4], "--size is for files that leave it open"),
        (["points.npy", "--size", 9], "size must lie between 1 and"),
        (["none.tsp"], "there is no file none.tsp"),
        (["none*.tsp"], "no file and no instance of the library matches 'none*.tsp'"),
        (["it.xml"], "a file of a problem ends in .npz, .txt, .dat, .tsp, .npy"),
        (["bad.dat", "--size", 2], "bad.dat is not a graph for the densest subgraph"),
        (["binary.tsp", "--size", 2], "binary.tsp is not a TSPLIB file with coordinates"),
        (["binary.dat", "--size", 2], "binary.dat is not a graph for the densest subgraph"),
        (["complex.npy", "--size", 2], "complex.npy does not hold points: its entries are complex128, no real numbers"),
        (["a*.txt", "--certificate", "c.npz"], "--certificate is about one instance; got 2"),
        (["a*.txt", "--out", "s.npz"], "s.npz would hold one solution; of several instances write JSON: --out s.json"),
    ],
)
def test_bad_input_is_a_sentence(folder, call, arguments, sentence):
    for name in ("it.xml", "bad.dat"):
        Path(name).write_text("no numbers\n")
    for name in ("binary.tsp", "binary.dat"):
        Path(name).write_bytes(b"\xff\xfe\x00")
    np.save("complex.npy", 1j * np.ones((3, 2)))
    code, printed, error = call("solve", *arguments)
    assert (code, printed, error.count("\n")) == (2, "", 1)
    assert sentence in error


@pytest.mark.parametrize("formulation", ["rlt", "glover"])
def test_highs_solves_what_is_exported(folder, call, formulation):
    highspy = pytest.importorskip("highspy")
    points, _ = folder
    best = solve(PointDispersionProblem(points, np.zeros(6), size=3, weight=0.5).expanded(), "brute-force").objective
    for file in ("six.lp", "six.mps"):
        assert call("instances", "export", "six.tsp", file, "--size", 3, "--formulation", formulation)[0] == 0
        model = highspy.Highs()
        model.setOptionValue("output_flag", False)
        assert model.readModel(file) == highspy.HighsStatus.kOk
        model.run()
        sign = -1 if file.endswith(".mps") else 1
        assert sign * model.getInfo().objective_function_value == pytest.approx(best, rel=1e-6)


def test_formulations_are_for_linear_files(folder, call):
    code, _, error = call("instances", "export", "a1.txt", "a.qubo", "--formulation", "rlt")
    assert (code, error) == (2, "fedselect: --formulation is for .lp and .mps files; got a.qubo\n")
    assert (
        "must be one of quadratic, rlt, glover, tangent"
        in call("instances", "export", "a1.txt", "a.lp", "--formulation", "x")[2]
    )
