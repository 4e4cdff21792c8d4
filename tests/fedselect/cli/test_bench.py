"""``fedselect bench`` as a person or a script meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from solvers.benchmark import Benchmark
from solvers.benchmark.verify import examine
from solvers.dispersion import DispersionProblem, write_mdplib
from solvers.errors import BenchmarkError
from tests.waiting import HANG, pressing_ctrl_c, until

OWN = '''
"""Methods of somebody's own."""
from __future__ import annotations
from dataclasses import dataclass
import os
import time
import numpy as np
from solvers import method
from solvers.dispersion import DispersionProblem

@dataclass
class Order:
    sign: float

def take(problem, order):
    x = np.zeros(problem.n, dtype=int)
    x[order[: problem.size]] = 1
    return x

@method(DispersionProblem, "cheapest", kind="heuristic")
def cheapest(problem, run, *, dearest: bool = False):
    order = Order(-1.0 if dearest else 1.0)
    return take(problem, np.argsort(order.sign * problem.costs))

@method(DispersionProblem, "fragile", kind="heuristic")
def fragile(problem, run):
    os._exit(1)

@method(DispersionProblem, "slow", kind="heuristic")
def slow(problem, run):
    time.sleep(0.05)
    return take(problem, np.arange(problem.n))
'''


@pytest.fixture
def there(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    for name in ("one", "two"):
        points = rng.random((10, 2))
        problem = DispersionProblem(np.linalg.norm(points[:, None] - points, axis=2), costs=rng.random(10), size=3)
        problem.save(tmp_path / f"{name}.npz")
    write_mdplib(DispersionProblem(np.ones((5, 5)) - np.eye(5), size=2, weight=0.5), tmp_path / "flat.txt")
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)}


def test_own_methods_variants_and_files(there, call, forgetting):
    arguments = ("dispersion", "--instances", "one.npz,two.npz,flat.txt", "--methods", "greedy,cheapest")
    arguments += ("--variant", "dear=cheapest dearest=true", "--load", "own.py", "--seeds", "0-1", "--time-limit", "5")
    code, out, errors = call("bench", *arguments, "--jobs", 2, "--out", "c", "--format", "json")
    # No progress bar where nobody looks on: the script that is executed, and nothing else.
    assert (code, errors) == (0, f"fedselect: loading {there / 'own.py'}, which executes it\n")
    rows = json.loads(out)["rows"]
    assert len(rows) == 3 * 3 * 2
    assert {row["instance"] for row in rows} == {"one", "two", "flat"}
    assert {row["verdict"] for row in rows} == {"ok"}
    dear = next(row for row in rows if row["method"] == "dear")
    assert (dear["registered"], dear["options"], dear["bound"]) == ("cheapest", {"dearest": True}, None)
    assert len(pd.read_csv(there / "c" / "results.csv")) == 18
    code, again, errors = call("bench", *arguments, "--out", "c", "--qoblib", "submission.csv")
    assert code == 0, errors
    assert len(pd.read_csv(there / "submission.csv")) == 3 * 3
    assert "benchmark: c" in again
    assert "dear" in again


@pytest.mark.thorough
def test_files_of_all_formats_by_a_pattern_and_a_gap_at_which_to_stop(there, call):
    rng = np.random.default_rng(3)
    for name in ("p1", "p2"):
        distances = np.triu(rng.uniform(size=(24, 24)), 1)
        np.save(there / f"{name}.npy", distances + distances.T)
    arguments = ("dispersion", "--instances", "p?.npy", "--size", 6, "--methods", "branch-and-bound,greedy")
    stopping = ("--gap", 0.2, "--threads", 2, "--time-limit", "none")  # ten seconds are little on a busy machine
    code, out, errors = call("bench", *arguments, *stopping, "--no-repeat", "--format", "json")
    assert code == 0, errors
    rows = json.loads(out)["rows"]
    assert [(row["instance"], row["verdict"]) for row in rows] == [(p, "ok") for p in ("p1", "p1", "p2", "p2")]
    assert {(row["method"], row["stopped"]) for row in rows} == {("branch-and-bound", "gap"), ("greedy", "iterations")}
    assert all(row["gap"] <= 0.2 for row in rows if row["method"] == "branch-and-bound")


TEXTS = """
from solvers import method
from solvers.dispersion import DispersionProblem

@method(DispersionProblem, "told", kind="heuristic")
def told(problem, run, *, command: str = "", number: float | str = 0.5, loud: bool = False):
    "Take the first clients, whatever it is told."
    assert isinstance(command, str) and isinstance(loud, bool)
    run.offer(range(problem.size))
"""


def test_an_option_that_is_a_text_stays_one_whatever_it_looks_like(there, call, forgetting):
    (there / "texts.py").write_text(TEXTS)
    told = "t=told command=false number=7 loud=true"
    words = ("dispersion", "--instances", "one.npz", "--variant", told, "--load", "texts.py", "--no-repeat")
    code, out, errors = call("bench", *words, "--out", "d", "--format", "json")
    assert code == 0, errors
    assert json.loads(out)["rows"][0]["options"] == {"command": "false", "number": 7, "loud": True}
    words = ("one.npz", "--method", "told", "--option", "command=12", "--load", "texts.py", "--out", "told.json")
    code, out, errors = call("solve", *words)
    assert code == 0, errors
    assert json.loads((there / "told.json").read_text())["options"] == {"command": "12"}
    code, _, errors = call("solve", "one.npz", "--method", "told", "--option", "loud=1", "--load", "texts.py")
    assert (code, "option 'loud' must be" in errors) == (2, True)


PROGRAM = """
from solvers import method
from solvers.dispersion import DispersionProblem

@method(DispersionProblem, "asks", kind="heuristic")
def asks(problem, run, *, command: str = "my-solver"):
    "Ask a program."
    return run.execute([command])
"""


def test_a_program_that_is_not_there_is_said_beneath_the_table(there, call, forgetting):
    (there / "asking.py").write_text(PROGRAM)
    words = ("dispersion", "--instances", "one.npz", "--seeds", "0-2", "--methods", "greedy", "--no-repeat")
    words = (*words, "--load", "asking.py")
    code, out, errors = call("bench", *words, "--variant", "mine=asks command=./no-such", "--out", "d")
    assert code == 0, errors
    assert "missing: mine, 3 rows: there is no program './no-such'" in out
    assert out.count("missing: ") == 1


@pytest.mark.thorough
def test_auto_that_is_named_stays_beside_variants(there, call):
    words = (
        "bench",
        "dispersion",
        "--instances",
        "one.npz",
        "--variant",
        "mine=greedy",
        "--no-repeat",
        "--format",
        "json",
    )
    both = json.loads(call(*words, "--methods", "auto", "--out", "both")[1])
    assert [row["method"] for row in both["rows"]] == ["auto", "mine"]
    alone = json.loads(call(*words, "--out", "alone")[1])
    assert [row["method"] for row in alone["rows"]] == ["mine"]


@pytest.mark.thorough
def test_two_benchmarks_on_one_page(there, call):
    """Rows of both, with best known values of both; rows that neither has are said to be missing."""
    for name, methods in (("a", "greedy,auto"), ("b", "tabu")):
        code, _, errors = call(
            *("bench", "dispersion", "--instances", "one.npz", "--methods", methods, "--no-repeat", "--out", name)
        )
        assert code == 0, errors
    code, _, errors = call("report", "a", "b", "--as", "md", "--out", "page")
    assert code == 0, errors
    page = (there / "page" / "report.md").read_text()
    assert all(method in page for method in ("greedy", "auto", "tabu"))
    merged = Benchmark.merge(Benchmark.load(there / "a"), Benchmark.load(there / "b"))
    assert len(merged.table) == 3
    assert merged.missing == 0
    assert merged.table["gap_to_best"].min() == 0
    assert merged.table["best_known"].nunique() == 1
    text = repr(merged)
    assert "Benchmark of 3 rows of 3" in text
    assert "methods (3): greedy, auto, tabu" in text
    assert "verdicts: 3 ok" in text
    assert len(text.splitlines()) <= 10
    slower = [{**record, "seconds": record["seconds"] + 1.0} for record in Benchmark.load(there / "a").records]
    again = Benchmark.merge(merged, Benchmark(Benchmark.load(there / "a").manifest, slower))
    assert again.records == merged.records
    assert len(again.records) == 3


def test_benchmarks_that_do_not_go_together_are_a_sentence(there, call):
    for name, methods, repeat in (("a", "greedy", ["--no-repeat"]), ("c", "greedy", [])):
        call("bench", "dispersion", "--instances", "one.npz", "--methods", methods, *repeat, "--out", name)
    first, other = Benchmark.load(there / "a"), Benchmark.load(there / "c")
    with pytest.raises(BenchmarkError, match="conditions differ"):
        Benchmark.merge(first, other)
    with pytest.raises(BenchmarkError, match="at least one"):
        Benchmark.merge()
    (name,) = first.manifest["instances"]
    changed = {**first.manifest, "instances": {name: {**first.manifest["instances"][name], "digest": "0"}}}
    with pytest.raises(BenchmarkError, match="is another problem in each benchmark"):
        Benchmark.merge(first, Benchmark(changed, []))
    changed = {**first.manifest, "methods": {"greedy": {"name": "tabu", "options": {}}}}
    with pytest.raises(BenchmarkError, match="the method 'greedy' is not the same"):
        Benchmark.merge(first, Benchmark(changed, []))
    with pytest.raises(BenchmarkError, match=r"is in two benchmarks, with another objective \(.* and 0.0\)"):
        Benchmark.merge(first, Benchmark(first.manifest, [{**first.records[0], "objective": 0.0}]))


def test_a_crash_is_a_line_and_exit_code_3(there, call, forgetting):
    words = ("bench", "dispersion", "--instances", "one.npz", "--methods", "greedy,fragile", "--load", "own.py")
    code, out, errors = call(*words)
    assert code == 3, errors
    assert "crashed: fragile on one, seed 0: " in out
    assert (there / "bench" / "results.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["diversion"], "there is no family 'diversion'; did you mean 'dispersion'? (known: dispersion, "),
        (["dispersion", "--instances", "three.npz"], "three.npz"),
        (["dispersion", "--instances", "one.npz", "--methods", "gready"], "did you mean 'greedy'?"),
        (["dispersion", "--instances", "one.npz", "--variant", "greedy"], "a variant reads like"),
        (["dispersion", "--instances", "one.npz", "--variant", "t=tabu speed=9"], "no option 'speed'"),
        (["dispersion", "--instances", "one.npz", "--time-limit", "soon"], "or 'none'; got 'soon'"),
        (["dispersion", "--instances", "one.npz", "--time-limit", "-1"], "positive number of seconds"),
        (["dispersion", "--instances", "one.npz", "--seeds", "x"], "seeds read like"),
        (["dispersion", "--instances", "one.npz", "--load", "none.py"], "there is no script none.py"),
        (["dispersion", "--instances", "one.npz", "--load", "nomodule"], "cannot load nomodule: "),
        (["capping", "--instances", "one.npz"], "is a problem of family 'dispersion', not 'capping'"),
        (["dispersion", "--instances", "own.py"], "own.py: a file of a problem ends in .npz, .txt, .dat, .tsp, .npy"),
        (["dispersion", "--instances", "*.none"], "no file and no dispersion instance of the library matches '*.none'"),
        (["dispersion", "--instances", "one.npz", "--size", "2"], "one.npz says how many to choose"),
        (["dispersion", "--instances", "one.npz", "--gap", "-1"], "gap must be finite and non-negative"),
        (["dispersion", "--instances", "one.npz", "--methods", "tabu", "--gap", "0.1"], "(tabu) has a bound"),
        (["dispersion", "--instances", "one.npz", "--methods", "tabu", "--threads", "2"], "an option for threads"),
        (["--suite", "convex", "--gap", "0.1"], "a suite's protocol is fixed"),
        (["--suite", "convex", "--size", "3"], "give neither a family nor --size with --suite"),
        (["--suite", "tenth", "--instances", "playd-n300-*"], "the suite 'tenth' has no instance 'playd-n300-*'"),
        (["--suite", "tenth", "--instances", "*-two", "--publish", "p"], "--publish is for the results of a whole"),
        (["dispersion", "--instances", "one.npz", "--format", "yaml"], "--format must be 'text' or 'json'"),
    ],
)
def test_bad_input_is_one_sentence_exit_2_and_nothing_written(there, capfd, monkeypatch, arguments, sentence):
    from fedselect.cli import main

    monkeypatch.setattr(sys, "argv", ["fedselect", "bench", *arguments, "--out", "c"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    errors = capfd.readouterr().err
    assert errors.startswith("fedselect: ")
    assert sentence in errors
    sentences = [line for line in errors.strip().splitlines() if not line.endswith(", which executes it")]
    assert len(sentences) == 1
    assert not (there / "c").exists()


def test_of_a_suite_some_instances_take_part(there, call):
    words = ("--suite", "tenth", "--instances", "half-n300-t*,drawn-n300-two", "--methods", "greedy", "--jobs", 1)
    code, out, errors = call("bench", *words, "--time-limit", "none", "--no-repeat", "--format", "json", "--out", "b")
    assert code == 0, errors
    assert sorted(row["instance"] for row in json.loads(out)["rows"]) == ["drawn-n300-two", "half-n300-two"]


SLOW = ["bench", "dispersion", "--instances", "one.npz", "--methods", "slow", "--load", "own.py", "--no-repeat"]
INTERRUPTED = "fedselect: interrupted; what was finished is kept, and the same command continues"


def test_ctrl_c_is_130_and_the_same_command_continues(there, call, forgetting, interruptible):
    rows, words = there / "c" / "rows.jsonl", [*SLOW, "--seeds", "0-14", "--out", "c"]
    with pressing_ctrl_c(lambda: rows.exists() and rows.read_bytes().count(b"\n") >= 3):
        code, _, errors = call(*words)
    assert (code, errors) == (130, f"fedselect: loading {there / 'own.py'}, which executes it\n{INTERRUPTED}\n")
    before = rows.read_bytes()
    assert 3 <= before.count(b"\n") < 15
    code, _, errors = call(*words)
    assert code == 0, errors
    assert rows.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert rows.read_bytes().count(b"\n") == 15


def test_an_interrupt_that_is_lost_ends_the_benchmark_before_the_next_row(there, call, interruptible, monkeypatch):
    def losing(*given):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return examine(*given)

    monkeypatch.setattr("solvers.benchmark.running.examine", losing)
    words = ("dispersion", "--instances", "one.npz", "--methods", "greedy", "--no-repeat", "--seeds", "0-2")
    code, _, errors = call("bench", *words, "--out", "c")
    assert (code, errors) == (130, f"{INTERRUPTED}\n")
    assert (there / "c" / "rows.jsonl").read_bytes().count(b"\n") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_signal_ends_the_process_and_the_same_command_continues(there, jobs, stop):
    command = [sys.executable, "-m", "fedselect", *SLOW, "--seeds", "0-24", "--jobs", str(jobs), "--out", "c"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    rows = there / "c" / "rows.jsonl"
    until(lambda: rows.exists() and rows.read_bytes().count(b"\n") >= 3, process)
    process.send_signal(stop)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 130
    loading, interrupted = errors.splitlines()
    assert loading == f"fedselect: loading {there / 'own.py'}, which executes it"
    assert interrupted == INTERRUPTED
    before = rows.read_bytes()
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
    assert done.returncode == 0, done.stderr
    assert rows.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert rows.read_bytes().count(b"\n") == 25
