"""``fedselect verify``, ``solve --certificate`` and ``instances submit``: verdicts, and the exit codes promised."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from solvers import instances, solve
from solvers.allocation import AllocationProblem
from solvers.certificates import Certificate

SMALL = "fedgs-digits-twolabel-n30-m5-lognormal-r10"


def test_a_certificate_is_written_and_verified(call, tmp_path):
    path = tmp_path / "proof.npz"
    code, out, _ = call("solve", SMALL, "--certificate", str(path), "--format", "json")
    assert code == 0
    assert f"{path} proves" in json.loads(out)["certificate"]
    code, out, err = call("verify", str(path))
    assert (code, err) == (0, "")
    assert "verified" in out
    code, out, _ = call("verify", str(path), "--problem", SMALL, "--format", "json")
    (found,) = json.loads(out)
    assert (code, found["verified"]) == (0, True)
    assert instances.info(SMALL).best_known <= found["bound"] <= instances.info(SMALL).best_known + 1e-6


def test_names_of_the_library(call):
    code, out, _ = call("verify", SMALL, "fedss-clustered-n24-m6-groups4-r12", "--format", "json")
    assert code == 0
    assert all("is optimal" in found["why"] for found in json.loads(out))


def test_refusals_are_exit_code_3_and_bad_input_2(call, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # parallel workers have 80, where sentences are folded
    problem = AllocationProblem([8, 5], [1.0, 2.0], 6)
    good = solve(problem, certificate=True).certificate
    problem.save(tmp_path / "problem.npz")
    path = good.save(tmp_path / "good.npz")
    lie = replace(good, bound=good.bound + 1).save(tmp_path / "lie.npz")
    code, out, _ = call("verify", str(path), str(lie), "--problem", str(tmp_path / "problem.npz"))
    assert code == 3
    assert out.count("REFUSED") == 1
    assert "proves only" in " ".join(out.split())
    code, out, _ = call("verify", str(path), "--problem", SMALL)
    assert code == 3
    (tmp_path / "damaged.npz").write_bytes(path.read_bytes()[:-100])
    assert call("verify", str(tmp_path / "damaged.npz"))[0] == 3
    for wrong in ([str(path)], [str(tmp_path / "none.npz")], []):  # of no known instance; no such file; nothing
        code, _, err = call("verify", *wrong)
        assert code == 2
        assert err.startswith("fedselect: ")


def test_a_pool_is_named_beside_the_bound(call, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "proof.npz"
    code, out, _ = call("solve", SMALL, "--pool", "3", "--certificate", str(path))
    assert (code, "3 selections, complete" in out) == (0, True)
    code, out, _ = call("verify", str(path), "--format", "json")
    assert code == 0
    assert "every selection but the 3 that it lists is no better than" in json.loads(out)[0]["why"]


def test_a_pickle_is_never_opened(call, tmp_path):
    path = tmp_path / "pickled.npz"
    np.savez(path, header=np.array({"kind": "dispersion"}, dtype=object))
    code, out, _ = call("verify", str(path), "--format", "json")
    assert code == 3
    assert "not a certificate file" in out


def test_submissions(call, tmp_path):
    solution = solve(instances.load(SMALL), certificate=True)
    path = solution.save(tmp_path / "mine.npz")
    code, out, _ = call("instances", "submit", str(path))
    assert code == 4  # sound, and no better than what is known
    assert out.startswith(f"{SMALL}: accepted")
    lie = replace(solution.certificate, bound=0.0)
    assert isinstance(lie, Certificate)
    code, out, _ = call("instances", "submit", "--check", str(lie.save(tmp_path / "lie.npz")), "--format", "json")
    assert code == 3
    assert "proves only" in json.loads(out)["sentence"]
    assert call("instances", "submit", "--check", str(tmp_path / "none.npz"))[0] == 2
