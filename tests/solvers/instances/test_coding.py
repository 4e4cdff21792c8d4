"""What is packed comes back to the same bits, and the digest tells bits apart."""

from __future__ import annotations

import lzma
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from solvers import InvalidProblem
from solvers.allocation import AllocationProblem
from solvers.capping import CappingProblem
from solvers.dispersion import DispersionProblem
from solvers.instances import digest
from solvers.instances.library import _coded, _decoded, pack, unpack
from solvers.participation import CutoffProblem
from solvers.weighting import TotalErrorProblem
from tests.thoroughly import tried


def same_bits(first, second):
    return (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes())


def round_trip(array):
    return _decoded(*_key(_coded("h", array)))


def _key(stored):
    return next(name for name in stored if not name.endswith(".places")), stored


@tried(
    15,
    60,
    st.integers(1, 9).flatmap(lambda n: arrays(np.float64, (n, n), elements=st.sampled_from([0.0, -0.0, 0.1, 0.3, 5]))),
    st.booleans(),
    st.sampled_from([np.float64, np.float32]),
)
def test_matrices_come_back_to_the_bit(matrix, symmetric, dtype):
    """Minus zero, asymmetry and a diagonal that is not zero included: whatever does not fit is kept as it is."""
    matrix = matrix.astype(dtype)
    if symmetric:
        matrix = np.triu(matrix, 1)
        matrix = matrix + matrix.T
    assert same_bits(round_trip(matrix), matrix)


def test_a_matrix_of_few_values_takes_little():
    rng = np.random.default_rng(0)
    h = np.triu(rng.choice([0.2, 0.7, 1.0], size=(400, 400)), 1)
    assert len(pack(DispersionProblem(h + h.T, size=5))) < 400 * 399 / 2 / 8 * 2  # two bits a pair; 3.7 MB as they are


PROBLEMS = [
    DispersionProblem(np.ones((3, 3)) - np.eye(3), costs=[1.0, -2.0, 0.1], size=2, weight=1 / 3, clients=[2, 5, 9]),
    DispersionProblem(np.float32(np.ones((3, 3)) - np.eye(3)) * np.float32(0.1), size=2),
    CappingProblem(log_weights=[-1e4, 3.0, 1e4], size=2, floor=0.1),
    CappingProblem(weights=[0.1, 0.2, 0.3], size=1),
    AllocationProblem([5, 6], [0.1, 0.2], 4, upper=[3, 4]),
    TotalErrorProblem([0.1, 0.9], [1.0, 2.0], 0.3, 1.0, importance=[0.25, 0.75], bias="tv"),
    CutoffProblem([0.1, 0.7], 100),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_problems_come_back_to_the_bit(problem, tmp_path):
    again, best = unpack(pack(problem), "here")
    assert type(again) is type(problem)
    assert digest(again) == digest(problem)
    assert best is None
    assert digest(type(problem).load(problem.save(tmp_path / "p.npz"))) == digest(problem)  # by the other file format


def test_a_namesake_defined_elsewhere_does_not_take_over_the_files():
    type("CutoffProblem", (CutoffProblem,), {"__module__": "elsewhere"})
    assert type(unpack(pack(CutoffProblem([0.1, 0.7], 100)), "here")[0]) is CutoffProblem


def test_the_best_decision_keeps_its_type():
    problem = AllocationProblem([5, 6], [0.1, 0.2], 4)
    for decision in (np.array([1, 3]), np.array([1.5, 2.5])):
        assert same_bits(unpack(pack(problem, decision), "here")[1], decision)


def test_the_digest_sees_the_last_bit_and_every_field():
    problem = PROBLEMS[0]
    nudged = problem.costs.copy()
    nudged[1] = np.nextafter(nudged[1], 0)
    changed = [replace(problem, costs=nudged), replace(problem, weight=0.5), replace(problem, size=1)]
    changed.append(replace(problem, clients=[2, 5, 8]))
    assert len({digest(each) for each in [problem, *changed]}) == 5
    assert digest(problem) == digest(replace(problem))


@pytest.mark.parametrize("data", [b"", b"nothing", lzma.compress(b"nothing")])
def test_other_files_are_refused(data):
    with pytest.raises(InvalidProblem, match=r"here is not an instance of the library"):
        unpack(data, "here")
