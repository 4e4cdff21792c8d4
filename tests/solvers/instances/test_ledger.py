"""The ledger: every entry is about its instance, every certificate in it proves what is entered, strangers' files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers import InvalidOption, instances, solve
from solvers.certificates import CertificateError, problem_digest
from solvers.instances import ledger
from solvers.instances.library import FOLDER

SMALL = "fedgs-digits-twolabel-n30-m5-lognormal-r10"


def test_every_instance_has_an_entry_and_every_certificate_an_owner():
    entries = ledger.entries()
    assert sorted(entries) == instances.names()
    files = {path.stem for path in (FOLDER / "certificates").glob("*.npz")}
    assert files == {name for name, entry in entries.items() if entry.certified is not None}
    sizes = {path.stem: path.stat().st_size for path in (FOLDER / "certificates").glob("*.npz")}
    assert max(size for name, size in sizes.items() if instances.info(name).n <= 100) <= 300_000
    assert max(sizes.values()) <= 2_000_000
    assert sum(sizes.values()) <= 8_000_000


def test_entries_say_what_the_index_says():
    entries = ledger.entries()
    assert len(entries) >= len(instances.names("dispersion"))
    for name, entry in entries.items():
        known = instances.info(name)
        assert entry.value.number == known.best_known
        assert entry.bound.number == known.bound
        assert (entry.tier == "open") == (not known.proved)
        assert entry.value.command.startswith(f"fedselect solve {name} ")


def test_problems_are_those_of_the_library():
    for name in [SMALL, *instances.names("allocation")]:
        assert ledger.entry(name).problem == problem_digest(instances.load(name))
        assert ledger.of_digest(ledger.entry(name).problem) == name


@pytest.mark.parametrize("family", ["dispersion", "allocation", "capping", "weighting", "participation"])
def test_small_certificates_verify(family):
    """CI reads all of them (.ci/ledger); here the smallest of each family."""
    certified = [name for name in instances.names(family) if ledger.entry(name).certified is not None]
    name = min(certified, key=lambda name: (FOLDER / "certificates" / f"{name}.npz").stat().st_size)
    found = ledger.verify(name)
    assert found.accepted
    assert "is optimal" in found.sentence


def test_a_stranger_submits(tmp_path):
    problem = instances.load(SMALL)
    solution = solve(problem, certificate=True)
    name, verdict = instances.submit(solution.save(tmp_path / "solution.npz"))
    assert (name, verdict.accepted) == (SMALL, True)
    name, verdict = instances.submit(solution.certificate.save(tmp_path / "proof.npz"))
    assert (name, verdict.accepted) == (SMALL, True)
    assert instances.submit(solution) == instances.submit(tmp_path / "solution.npz")
    assert not instances.submit(solution.certificate)[1].improves  # the ledger has it
    with pytest.raises(InvalidOption, match="got a ndarray"):
        instances.submit(solution.x)
    lying = replace(solution, certificate=replace(solution.certificate, bound=solution.objective - 1e-3))
    _, verdict = instances.submit(lying.save(tmp_path / "lie.npz"))
    assert not verdict.accepted
    assert "proves only" in verdict.sentence
    other = type(problem)(problem.distances * 2, problem.costs, size=problem.size)
    with pytest.raises(InvalidOption, match="about no instance"):
        instances.submit(solve(other).save(tmp_path / "other.npz"))
    np.savez(tmp_path / "pickled.npz", header=np.array({"x": 1}, dtype=object))
    with pytest.raises(CertificateError, match="holds no solution and no certificate"):
        instances.submit(tmp_path / "pickled.npz")


def test_the_refusal_of_an_infeasible_decision_says_that(tmp_path):
    solution = solve(instances.load(SMALL), "greedy")
    file = solution.save(tmp_path / "solution.npz")
    with np.load(file) as stored:
        arrays = dict(stored)
    arrays["x"][np.flatnonzero(arrays["x"])[0]] = 0
    np.savez(file, **arrays)
    with pytest.raises(CertificateError, match=r"no certificate \(its decision is not feasible\)"):
        instances.submit(file)


@pytest.mark.parametrize(("worse", "improves"), [(0.0, False), (1e-11, False), (1e-3, True)])
def test_bounds_better_by_rounding_alone_win_nothing(monkeypatch, worse, improves):
    proof = solve(instances.load(SMALL), certificate=True).certificate
    proved = instances.submit(proof)[1].verified
    known = replace(ledger.entry(SMALL), certified=proved * (1 + worse))
    monkeypatch.setattr(ledger, "entry", lambda name: known)
    assert instances.submit(proof)[1].improves == improves
