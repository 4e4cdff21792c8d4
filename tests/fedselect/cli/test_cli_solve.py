"""``fedselect solve``: what it prints, what it writes, and the exit codes that its help promises."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from solvers import instances, method, solve
from solvers.balance import BalanceProblem
from solvers.capping import CappingProblem
from solvers.constraints import Budget
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem, write_mdplib
from solvers.schedule import ScheduleProblem
from tests.thoroughly import few_of
from tests.waiting import HANG, until

SMALL = "fedgs-digits-twolabel-n30-m5-lognormal-r10"
HARD = "fedgs-synthetic-n1000-m200-ideal-alpha100-r2"


def test_an_instance_of_the_library(call):
    code, out, err = call("solve", SMALL, "--require-proof", "--format", "json")
    assert (code, err) == (0, "")
    found, known = json.loads(out), instances.info(SMALL)
    assert found["status"] == "optimal"
    assert found["objective"] == pytest.approx(known.best_known, rel=1e-6)
    assert found["best_known"] == known.best_known
    assert found["gap_to_best_known"] <= 1e-6
    x = np.array(found["x"])
    problem = instances.load(SMALL)
    assert problem.objective(x) == found["objective"]
    assert problem.selected(x).tolist() == found["selected"]


def test_text_names_what_is_known(call):
    code, out, err = call("solve", SMALL, "--method", "greedy")
    assert (code, err) == (0, "")
    for word in ("objective", "best known", "selected", "greedy", "feasible"):
        assert word in out
    code, out, _ = call("solve", "e3cs-digits-n100-m20-incremental-r90")
    assert code == 0
    assert "100 values; --out has all" in " ".join(out.replace("│", " ").split())  # cells fold


def test_a_gap_at_which_to_stop(call, tmp_path):
    distances = np.triu(np.random.default_rng(0).uniform(size=(24, 24)), 1)
    np.save(tmp_path / "d.npy", distances + distances.T)
    arguments = ("--size", 6, "--method", "branch-and-bound", "--gap", 0.2, "--threads", 2, "--log")
    code, out, log = call("solve", tmp_path / "d.npy", *arguments, "--format", "json")
    found = json.loads(out)
    assert (code, found["stopped"], found["status"]) == (0, "gap", "feasible")
    assert 0 < found["gap"] <= 0.2
    assert "incumbent" in log
    assert "status" not in log  # the table says it
    assert "0.5 (the default for .npy and .csv; Python's is 1)" in call("solve", tmp_path / "d.npy", *arguments[:4])[1]


def test_a_solution_file_has_everything(call, tmp_path):
    path = tmp_path / "solution.json"
    arguments = ("--method", "annealing", "--seed", 7, "--option", "moves=3000", "--time-limit", 2, "--out", path)
    assert call("solve", SMALL, *arguments)[0] == 0
    found = json.loads(path.read_text())
    assert (found["method"], found["seed"], found["options"]) == ("annealing", 7, {"moves": 3000})
    assert found["trace"][-1][1] == found["objective"]
    again = json.loads(call("solve", SMALL, *arguments[:-2], "--format", "json")[1])
    assert again["x"] == found["x"]


def test_files_of_problems_and_of_mdplib(call, tmp_path):
    problem = CappingProblem(weights=[8.0, 4.0, 1.0, 1.0], size=2)
    problem.save(tmp_path / "p.npz")
    code, out, _ = call("solve", tmp_path / "p.npz", "--format", "json")
    assert code == 0
    assert sum(json.loads(out)["x"]) == pytest.approx(2)
    write_mdplib(
        DispersionProblem(np.arange(4) ** 2 * (1 - np.eye(4)) * np.arange(4)[:, None] ** 2, size=2), tmp_path / "m.txt"
    )
    assert json.loads(call("solve", tmp_path / "m.txt", "--format", "json")[1])["selected"] == [2, 3]
    assert json.loads(call("solve", tmp_path / "m.txt", "--size", 3, "--format", "json")[1])["selected"] == [1, 2, 3]


def test_a_limit_of_work(call, tmp_path):
    upper = np.triu(np.random.default_rng(0).random((80, 80)), 1)
    DispersionProblem(upper + upper.T, size=16).save(tmp_path / "p.npz")
    found = json.loads(call("solve", tmp_path / "p.npz", "--work-limit", "20000", "--format", "json")[1])
    assert found["stopped"] == "work-limit"
    assert found["work"] >= 10_000
    code, _, error = call("solve", tmp_path / "p.npz", "--work-limit", "20000", "--method", "cp-sat")
    assert code == 2
    assert "work_limit needs a method that counts its work" in error


def test_a_problem_in_json_is_solved_by_name(call, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    problem = DispersionProblem([[0, 1, 5], [1, 0, 2], [5, 2, 0]], size=2, names=["ada", "bob", "eve\x1b[31m"])
    (tmp_path / "mine.json").write_text(problem.to_json())
    found = json.loads(call("solve", tmp_path / "mine.json", "--format", "json")[1])
    assert found["selected_names"] == ["ada", "eve\x1b[31m"]
    assert "ada, eve[31m" in call("solve", tmp_path / "mine.json")[1]


@pytest.mark.parametrize(
    ("problem", "x"),
    [
        (DeadlineProblem([0, 0, 1], [3, 3, 1], 4, [1, 2, 1]), [0, 1, 1]),
        (CoverageProblem([[5, 4, 0], [4, 5, 0], [0, 0, 5]], 2), [1, 0, 1]),
        (BalanceProblem([[3, 1], [4, 0], [1, 3]], 2), [1, 0, 1]),
        (ScheduleProblem([[1, 1], [1, 0]], 1), [[False, True], [True, False]]),
    ],
)
def test_files_of_further_families(call, tmp_path, problem, x):
    code, out, err = call("solve", problem.save(tmp_path / "p.npz"), "--require-proof", "--format", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["x"] == x


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fedgs-digits-twolabel-n30-m5-lognormal-r1"], f"did you mean '{SMALL}'"),
        (["nothing.npz"], "there is no file nothing.npz"),
        ([SMALL, "--method", "gredy"], "did you mean 'greedy'"),
        ([SMALL, "--method", "tabu", "--option", "move=3"], "has no option 'move'; did you mean 'moves'? (accepted:"),
        ([SMALL, "--method", "tabu", "--option", "moves"], "an option reads key=value; got 'moves'"),
        ([SMALL, "--time-limit", "-1"], "time_limit must be a positive number"),
        ([SMALL, "--gap", "-1"], "gap must be finite and non-negative"),
        (
            [SMALL, "--gap", "0.1", "--method", "tabu"],
            "'tabu' is a heuristic, which promises none: name a second method",
        ),
        ([SMALL, "--threads", "2", "--method", "sdp"], "method 'sdp' has no option for threads"),
        ([SMALL, "--option", "threads=2"], "threads is no option of a method: write --threads"),
        ([SMALL, "--size", "3"], "--size is for files that leave it open (MDPLIB .txt"),
        ([SMALL, "--out", "nowhere/solution.json"], "there is no folder nowhere"),
        ([SMALL, "--format", "yaml"], "--format must be 'text' or 'json'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(call, arguments, sentence):
    code, out, err = call("solve", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("fedselect: ")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_no_proof_is_exit_4_where_one_is_required(call):
    assert call("solve", SMALL, "--method", "greedy", "--require-proof")[0] == 4
    assert call("solve", SMALL, "--method", "greedy")[0] == 0


def test_infeasible_is_exit_3_and_nothing_found_exit_5(call, scratch_registry):
    @method(DispersionProblem, "gives-up", kind="heuristic")
    def gives_up(problem, run):
        """Find nothing."""

    @method(DispersionProblem, "denies", kind="exact")
    def denies(problem, run):
        """Prove what is not so."""
        run.infeasible()

    code, out, _ = call("solve", SMALL, "--method", "gives-up", "--format", "json")
    assert (code, json.loads(out)["status"]) == (5, "unknown")
    assert call("solve", SMALL, "--method", "gives-up", "--require-proof")[0] == 5
    code, out, _ = call("solve", SMALL, "--method", "denies")
    assert code == 3
    assert "infeasible" in out


def test_the_conflict_of_an_infeasible_file_is_said(call, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    use = np.arange(1.0, 13.0)
    budgets = [Budget(use, 8.0, "seconds"), Budget(use[::-1].copy(), 8.0, "bytes")]
    problem = DispersionProblem(np.ones((12, 12)) - np.eye(12), size=3, budgets=budgets)
    problem.save(tmp_path / "searched.npz")
    code, out, _ = call("solve", str(tmp_path / "searched.npz"))
    assert code == 3
    assert "size 3, budget 'seconds' (at most 8) and budget 'bytes' (at most 8) contradict each other" in out
    # A file that states what the constructor refuses: its limit is lowered behind the constructor's back.
    object.__setattr__(problem.budgets[0], "limit", 2.0)
    problem.save(tmp_path / "refused.npz")
    code, out, _ = call("solve", str(tmp_path / "refused.npz"), "--format", "json")
    assert code == 3
    found = json.loads(out)
    assert (found["status"], found["stopped"]) == ("infeasible", "proved")
    assert "size 3 and budget 'seconds' (at most 2) contradict each other" in found["message"]


def test_a_method_that_lies_is_a_sentence(call, scratch_registry):
    @method(DispersionProblem, "lies", kind="exact")
    def lies(problem, run):
        """Claim a bound below its own decision."""
        x = np.zeros(problem.n, dtype=int)
        x[: problem.size] = 1
        run.offer(x)
        run.tighten(run.objective - 1.0)

    code, _, err = call("solve", SMALL, "--method", "lies")
    assert code == 2
    assert "reported the bound" in err


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)}


@pytest.mark.parametrize("stop", few_of([signal.SIGINT, signal.SIGTERM], 1))
def test_a_signal_prints_the_incumbent_and_exits_130(tmp_path, stop):
    """The method says through the file system that it is at work, so that no time has to be guessed."""
    sign = tmp_path / "at-work"
    code = (
        "import sys, time, pathlib, numpy as np\n"
        "from solvers import method\n"
        "from solvers.dispersion import DispersionProblem\n"
        "@method(DispersionProblem, 'dawdles', kind='heuristic')\n"
        "def dawdles(problem, run):\n"
        "    run.offer(np.arange(problem.n) < problem.size)\n"
        f"    pathlib.Path({str(sign)!r}).touch()\n"
        "    time.sleep(60)\n"
        "from fedselect.cli import main\n"
        f"sys.argv = ['fedselect', 'solve', {SMALL!r}, '--method', 'dawdles', '--format', 'json']\n"
        "main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    until(sign.exists, process)
    process.send_signal(stop)
    out, errors = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert errors == ""
    found = json.loads(out)
    assert (found["stopped"], len(found["selected"])) == ("interrupted", 5)


@pytest.mark.thorough
def test_a_terminal_sees_progress_and_a_pipe_does_not():
    """Standard error is a pseudo-terminal here, standard output a pipe."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fedselect", "solve", HARD, "--time-limit", "0.5", "--format", "json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment() | {"TERM": "xterm", "COLUMNS": "120"}
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        seen += part
    out, _ = process.communicate(timeout=HANG)
    os.close(ours)
    assert process.returncode == 0
    assert json.loads(out)["status"] == "feasible"
    for word in (b"auto", b"objective", b"bound", b"gap"):
        assert word in seen
    quiet = subprocess.run(command, capture_output=True, env=environment(), timeout=HANG)
    assert (quiet.returncode, quiet.stderr) == (0, b"")


def test_every_improvement_is_watched_as_it_enters_the_trace():
    seen = []
    solution = solve(instances.load(SMALL), "local-search", seed=2, watch=seen.append)
    assert tuple(seen) == solution.trace
    assert len(seen) >= 1


COMPLETIONS = {
    "solve fedau-cutoff-digits-n30-": ["fedau-cutoff-digits-n30-t200-r0"],
    "solve cafed-clustered-n24-r50 --method s": ["sorting"],
    f"solve {SMALL} --method gre": ["greedy"],
    "instances show theorem2-opt-syn": ["theorem2-opt-synthetic-n1000-r5"],
    "instances list --family w": ["weighting"],
    "compare x.toml --selectors uniform,fedg": ["uniform,fedgs"],
    "trace make sin": ["sin-lognormal"],
    "trace make lognormal --data syn": ["synthetic"],
}

#: A fresh process that is asked what bash asks when the tab key is pressed, after each of the lines it is given.
ASKED = """
import contextlib, io, json, os, sys
from fedselect.cli import main

offered = {}
sys.argv = ["fedselect"]
os.environ["_FEDSELECT_COMPLETE"] = "complete_bash"
for words in json.loads(sys.stdin.read()):
    os.environ |= {"COMP_WORDS": f"fedselect {words}", "COMP_CWORD": str(len(words.split()))}
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        main()
    offered[words] = printed.getvalue().split()
heavy = ("torch", "pandas", "cvxpy", "ortools", "sklearn", "matplotlib")
print(json.dumps([offered, [name for name in heavy if name in sys.modules]]))
"""


def test_shells_complete():
    """Nothing that is slow to import is imported for it."""
    command, asked = [sys.executable, "-c", ASKED], json.dumps(list(COMPLETIONS))
    done = subprocess.run(command, input=asked, capture_output=True, text=True, env=environment(), timeout=HANG)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [COMPLETIONS, []]


def test_a_pool_is_printed_member_by_member(call, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = call("solve", SMALL, "--pool", "3")
    assert code == 0
    found = solve(instances.load(SMALL), pool=3)
    assert "3 selections, complete; no other beyond" in out
    assert all(" ".join(map(str, each.selected)) in out for each in found.pool)
    code, out, _ = call("solve", SMALL, "--pool", "3", "--within", "0.01", "--format", "json")
    record = json.loads(out)
    assert record["pool_complete"]
    assert [each["selected"] for each in record["pool"]] == [record["selected"]]
    code, out, _ = call("solve", SMALL, "--pool", "2", "--diverse", "4", "--format", "json")
    first, second = (set(each["selected"]) for each in json.loads(out)["pool"])
    assert len(second - first) >= 4
    assert call("solve", SMALL, "--pool", "0")[0] == 2
    assert call("solve", SMALL, "--pool", "2", "--method", "tabu")[0] == 2
    assert "write --pool" in call("solve", SMALL, "--option", "pool=3")[2]
