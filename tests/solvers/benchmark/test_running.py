"""Every way a method can go wrong is caught, named and costs its own row; a benchmark survives its own death too."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest

from solvers import InvalidOption, UnknownMethod, __version__, environment, solve
from solvers import instances as library
from solvers.allocation import AllocationProblem
from solvers.benchmark import Benchmark, BenchmarkError, run_benchmark
from solvers.benchmark.jobs import JobRunner
from solvers.benchmark.store import Store
from solvers.capping import CappingProblem
from solvers.dispersion import DispersionProblem, write_mdplib
from solvers.participation import CutoffProblem
from solvers.registry import method as registered
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem
from tests.solvers.benchmark.misbehaving import Pick, picks
from tests.thoroughly import few_of
from tests.waiting import HANG, until

ROOT = Path(__file__).parents[3]

#: What each method's row is to say: verdict, and words of the message.
FATES = {
    "best": ("ok", ""),
    "exits": ("crashed", "exit code 7 (the last thing it said)"),
    "segfaults": ("crashed", "SIGSEGV"),
    "forks": ("crashed", "SIGKILL, as the system does where memory is short"),
    "doubles": ("ok", ""),
    "starves": ("error", "memory is short in its process: ImportError: libtorch_cpu.so: failed to map"),
    "hangs": ("hung", "ended"),
    "deaf": ("hung", "ended"),
    "raises": ("error", "ZeroDivisionError: nothing to divide by"),
    "leaves": ("error", "SystemExit: 3"),
    "boasts": ("invalid", "claims the objective 4, but its decision is worth 3"),
    "smuggles": ("invalid", "infeasible decision: it violates a constraint by 4"),
    "oversteps": ("invalid", "infeasible decision: it violates a constraint by 4"),
    "contradicts": ("invalid", "reported the bound 2.0, but its own decision has objective 3.0"),
    "overclaims": ("invalid", "claims the bound 3, which is refuted by best (seed 0, time limit 0.3 s), whose"),
    "mumbles": ("error", "a decision is an array of numbers"),
    "despairs": ("invalid", "no decision is feasible, which is refuted by best"),
    "wobbles": ("nondeterministic", "the same seed gave objective 3.0 first and 5.0 when repeated"),
    "absent": ("missing", "pip install 'a_package_that_nobody_has'"),
    "first": ("ok", ""),
}


@pytest.mark.parametrize(
    ("jobs", "backend"), few_of([(1, None), (2, "loky"), (2, "threading"), (2, "multiprocessing")], 1)
)
def test_each_fate_is_named_and_touches_no_other_row(jobs, backend):
    benchmark = run_benchmark(
        list(FATES), picks(1), time_limits=0.3, jobs=jobs, backend=backend, grace=0.3, warm_up=0, patience=20
    )
    table = benchmark.table.set_index("method")
    assert list(table.index) == list(FATES)
    assert benchmark.missing == 0
    for method, (verdict, words) in FATES.items():
        if method == "wobbles" and jobs > 1:
            words = "the same seed gave objective"  # how often it was called before depends on the worker
        assert table.loc[method, "verdict"] == verdict, table.loc[method, "message"]
        assert words in table.loc[method, "message"]
    assert table.loc["best", ["objective", "bound", "status"]].tolist() == [11.0, 11.0, "optimal"]
    assert (table["best_known"] == 11.0).all()
    # The objective is there where the decision is feasible, at its true value, and nowhere else.
    assert table.loc["boasts", "objective"] == 3.0
    assert np.isnan(table.loc["smuggles", "objective"])


@pytest.mark.thorough
def test_a_hang_or_a_crash_in_the_warm_up_is_the_row_s_own():
    table = run_benchmark(["hangs", "exits", "best"], picks(1), time_limits=0.3, grace=0.2, warm_up=0.5).table
    assert table["verdict"].tolist() == ["hung", "crashed", "ok"]
    assert table["message"][0].startswith("in the untimed call before the first timed one")


def test_a_hang_costs_its_limit_and_grace_and_not_the_warm_up():
    """Where it costs the warm-up, this test takes as long."""
    table = run_benchmark(["hangs", "best"], picks(1), time_limits=0.3, grace=0.2, warm_up=10 * HANG).table
    assert table["verdict"].tolist() == ["hung", "ok"]


def test_a_warm_up_that_fails_does_not_count():
    table = run_benchmark(["balks", "first"], picks(1), time_limits=0.3, grace=2.0, warm_up=20).table
    assert table["verdict"].tolist() == ["ok", "ok"]


@pytest.mark.parametrize(("warm_up", "verdict"), few_of([(0, "hung"), (20, "ok")], 1))
def test_loading_does_not_count_up_to_the_warm_up(warm_up, verdict):
    """1.5 s of loading under a limit and grace of half a second."""
    table = run_benchmark(["loads"], picks(1), time_limits=0.3, grace=0.2, warm_up=warm_up, repeat=False).table
    assert table["verdict"].tolist() == [verdict], table["message"][0]


@pytest.mark.parametrize("warm_up", few_of([0, 0.5], 1))
def test_loading_beyond_the_warm_up_counts_towards_the_limit(warm_up):
    """1.5 s of loading under a limit of three."""
    table = run_benchmark(["loads"], picks(1), time_limits=3.0, warm_up=warm_up, repeat=False).table
    assert table["verdict"].tolist() == ["ok"], table["message"][0]


def test_without_a_time_limit_patience_decides():
    table = run_benchmark(["hangs", "best"], picks(1), warm_up=0, patience=0.5).table
    assert table["verdict"].tolist() == ["hung", "ok"]
    assert table["time_limit"].isna().all()


def test_a_solve_cut_short_is_not_repeated_and_not_judged():
    table = run_benchmark(["waits"], picks(1), time_limits=[0.2], best_known={"pick-0": 11.0}, warm_up=0).table
    assert table.loc[0, ["verdict", "stopped"]].tolist() == ["ok", "time-limit"]
    # The gap is 1 until the decision worth 3 is there, and 8/11 from then on, to the end of the time limit.
    found = table.loc[0, "time_to_incumbent"]
    assert table.loc[0, "primal_integral"] == pytest.approx(found + (0.2 - found) * 8 / 11)


def test_the_table_has_its_columns_and_agrees_with_solve():
    rng = np.random.default_rng(0)
    points = rng.random((12, 2))
    problem = DispersionProblem(np.linalg.norm(points[:, None] - points, axis=2), costs=rng.random(12), size=4)
    benchmark = run_benchmark({"exact": "brute-force", "quick": ("local-search", {})}, {"d": problem}, seeds=[0, 3])
    table = benchmark.table
    assert list(table.columns[:24]) == [
        *("family", "instance", "n", "method", "registered", "options", "seed", "time_limit", "verdict", "status"),
        *("stopped", "native_status", "objective", "bound", "gap", "best_known", "gap_to_best", "time_to_incumbent"),
        *("time_to_proof", "primal_integral", "seconds", "cpu_seconds", "build_seconds", "nodes"),
    ]
    assert len(table) == 4
    exact = solve(problem, "brute-force")
    row = table.iloc[0]
    assert row["objective"] == exact.objective
    assert (row["family"], row["n"], row["kind"], row["sense"]) == ("dispersion", 12, "exact", "max")
    assert json.loads(row["versions"])["numpy"] == np.__version__
    assert (table["cpu_seconds"] >= 0).all()
    assert set(benchmark.traces["instance"]) == {"d"}
    assert benchmark.records[0]["x"] == exact.x.tolist()


FAMILIES = {
    "exclusion": ExclusionProblem([0.2, 0.3, 0.5], [1.0, 2.0, 0.5], 0.4, [0.9, 0.5, 0.7], [0.0, 0.2, -0.1]),
    "error": OptimizationErrorProblem([0.9, 0.5, 0.7], [1.0, 2.0, 0.5], 0.1, 1.0),
    "capping": CappingProblem(weights=[3.0, 1.0, 1.0, 2.0], size=2, floor=0.1),
    "cutoff": CutoffProblem([0.1, 0.5, 0.9], 100),
}


def test_every_family_under_the_backend_of_a_surrounding_configuration():
    problems = {**FAMILIES, "allocation": AllocationProblem([60, 25, 10, 5], [1, 2, 1, 1], 10)}
    with joblib.parallel_config("threading", n_jobs=2):
        table = run_benchmark(["auto"], problems, jobs=None, warm_up=0).table
    assert table["verdict"].tolist() == ["ok"] * 5, table["message"].tolist()
    assert table["n"].tolist() == [3, 3, 4, 3, 4]
    assert table["sense"].tolist() == [problem.sense for problem in problems.values()]
    for row in table.itertuples():
        assert row.objective == pytest.approx(solve(problems[row.instance]).objective, rel=1e-9)


def test_real_allocations_are_not_ranked_against_whole_ones():
    problem = AllocationProblem([60, 25, 10, 5], [1, 2, 1, 1], 10)
    table = run_benchmark(["kkt", "greedy", "proportional"], {"a": problem}).table.set_index("method")
    assert table.loc["kkt", "objective"] < table.loc["greedy", "objective"]
    assert table["relaxed"].tolist() == [True, False, False]
    assert (table["verdict"] == "ok").all()  # nor does a real decision refute the bound on whole ones
    assert (table["best_known"] == table.loc["greedy", "objective"]).all()
    unranked = ["gap_to_best", "time_to_proof", "primal_integral"]
    assert table.loc["kkt", unranked].isna().all()
    assert table.loc["proportional", "gap_to_best"] > 0


def test_best_known_from_elsewhere_counts_unless_the_table_beats_it():
    many = picks(2)
    table = run_benchmark(["first", "best"], many, best_known={"pick-0": 12.0, "pick-1": 1.0}).table
    assert table["best_known"].tolist() == [12.0, 12.0, 22.0, 22.0]
    assert table["gap_to_best"].tolist() == pytest.approx([9 / 12, 1 / 12, 16 / 22, 0])


def test_a_finished_folder_holds_everything_and_is_not_run_again(tmp_path):
    log = tmp_path / "log"
    arguments = ({"first": ("first", {"journal": str(log)}), "best": "best"}, picks(2))
    benchmark = run_benchmark(*arguments, seeds=[0, 1], out=tmp_path / "c", repeat=False, warm_up=0)
    again = run_benchmark(*arguments, seeds=[0, 1], out=tmp_path / "c", repeat=False, warm_up=0)
    pd.testing.assert_frame_equal(benchmark.table, again.table)
    pd.testing.assert_frame_equal(Benchmark.load(tmp_path / "c").table, benchmark.table)
    assert len(log.read_text().splitlines()) == 4
    assert len(pd.read_csv(tmp_path / "c" / "results.csv")) == 8
    assert json.loads((tmp_path / "c" / "benchmark.json").read_text())["format"] == "solvers-benchmark/1"
    pytest.importorskip("pyarrow")
    stored = pd.read_parquet(tmp_path / "c" / "results.parquet")
    assert stored["objective"].tolist() == benchmark.table["objective"].tolist()


def test_without_pyarrow_the_csv_is_written_and_the_rest_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    with pytest.warns(UserWarning, match=r"pip install '.*\[parquet\]'"):
        run_benchmark(["best"], picks(1), out=tmp_path / "c", warm_up=0)
    assert (tmp_path / "c" / "results.csv").exists()
    assert not (tmp_path / "c" / "results.parquet").exists()


def test_a_folder_grows_but_does_not_change(tmp_path):
    common = {"out": tmp_path / "c", "warm_up": 0}
    run_benchmark({"a": ("first", {"shift": 1})}, picks(1), **common)
    grown = {"a": ("first", {"shift": 1}), "b": "best"}
    assert len(run_benchmark(grown, picks(2), seeds=[0, 1], **common).table) == 8
    before = (tmp_path / "c" / "rows.jsonl").read_bytes()
    changed = {**picks(1), "pick-1": Pick(np.ones(6), 2)}
    refusals = [
        ((grown, changed, [0, 1]), {}, "instance 'pick-1' differs in its digest"),
        (({**grown, "a": "first"}, picks(2), [0, 1]), {}, "method 'a' differs in its options"),
        ((grown, picks(1), [0, 1]), {}, "it has instance 'pick-1'"),
        ((grown, picks(2), [1]), {}, "it has seed 0"),
        ((grown, picks(2), [0, 1], 1.0), {}, "it has time limit None"),
        ((grown, picks(2), [0, 1]), {"grace": 9.0}, "grace was 5.0 there and is 9.0 here"),
    ]
    for arguments, options, sentence in refusals:
        with pytest.raises(BenchmarkError, match=sentence):
            run_benchmark(*arguments, **common, **options)
    with Store(tmp_path / "c").alone(), pytest.raises(BenchmarkError, match="another process is at work"):
        run_benchmark(grown, picks(2), seeds=[0, 1], **common)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "thesis.tex").touch()
    with pytest.raises(BenchmarkError, match="is not empty and holds no benchmark"):
        run_benchmark(grown, picks(1), out=tmp_path / "d")
    assert (tmp_path / "c" / "rows.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("axis", "key", "sentence"),
    [
        ("versions", "numpy", r"it was made with numpy older, and .* is installed here"),
        ("code", "Pick:best", "the code of Pick method best has changed"),
    ],
)
def test_other_versions_and_changed_methods_are_refused(tmp_path, axis, key, sentence):
    run_benchmark(["best"], picks(1), out=tmp_path / "c", warm_up=0)
    path = tmp_path / "c" / "benchmark.json"
    manifest = json.loads(path.read_text())
    manifest[axis][key] = "older"
    path.write_text(json.dumps(manifest))
    with pytest.raises(BenchmarkError, match=sentence):
        run_benchmark(["best"], picks(1), out=tmp_path / "c", warm_up=0)


def test_a_worker_that_dies_is_a_sentence():
    with pytest.raises(BenchmarkError, match="a worker process died"):
        list(JobRunner(2).run(os._exit, [(1,), (1,)]))


@pytest.mark.parametrize(("jobs", "backend"), [(1, None), (2, "threading"), (2, "multiprocessing")])
def test_a_runner_gives_every_result_whether_the_backend_streams_or_not(jobs, backend):
    runner = JobRunner(jobs, backend, wave=1)
    assert runner.streams == (backend != "multiprocessing")
    assert sorted(runner.run(pow, [(k, 2) for k in range(5)])) == [0, 1, 4, 9, 16]


def test_a_backend_that_would_carry_nothing_is_refused():
    with pytest.raises(BenchmarkError, match=r"backend 'ray' carries two jobs or more, and one runs here; give jobs=2"):
        JobRunner(1, "ray")
    with pytest.raises(BenchmarkError, match=r"accepts dask, loky, .*ray.*threading; did you mean 'threading'\?"):
        JobRunner(2, "threadin")


def test_rows_of_a_verdict_can_be_solved_again(tmp_path):
    arguments = {"methods": ["absent", "best"], "instances": picks(1), "out": tmp_path / "c", "warm_up": 0}
    run_benchmark(**arguments)
    calls = []
    run_benchmark(**arguments, retry=["missing"], progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"methods": ["bset"]}, UnknownMethod, "there is no method 'bset'"),
        ({"methods": {"a": ("first", {"sift": 1})}}, InvalidOption, "no option 'sift'"),
        ({"methods": {"a": ("first", {"shift": np.ones(2)})}}, BenchmarkError, "plain values"),
        ({"methods": []}, BenchmarkError, "no method is given"),
        ({"methods": ["best", "best"]}, BenchmarkError, "'best' is given twice"),
        ({"methods": {"a": None}}, BenchmarkError, "'a' must be a name, or a name and its options; got None"),
        ({"methods": {"a": ("first", None)}}, BenchmarkError, "plain values"),
        ({"instances": {"a": None}}, BenchmarkError, "a file or a name of the library; got None"),
        ({"instances": {"a": lambda: 3}}, BenchmarkError, "a file or a name of the library; got 3"),
        ({"seeds": [2**70]}, BenchmarkError, "seed must be below 2"),
        ({"best_known": {"pick-0": None}}, BenchmarkError, "value of 'pick-0' must be finite; got None"),
        ({"instances": ["no-such-file"]}, BenchmarkError, "no-such-file|instance library"),
        ({"seeds": [-1]}, BenchmarkError, "seed must be an integer of at least 0; got -1"),
        ({"time_limits": [0.0]}, BenchmarkError, "time limit must be a positive number of seconds or None; got 0.0"),
        ({"best_known": {"x": 1.0}}, BenchmarkError, "best_known names 'x'"),
        ({"jobs": 0}, BenchmarkError, "jobs must be"),
        ({"grace": np.inf}, BenchmarkError, "grace must be finite and non-negative and below 1000000; got inf"),
        ({"retry": ["lost"]}, BenchmarkError, "no verdict 'lost' to retry"),
        ({"backend": "abacus"}, BenchmarkError, "abacus"),
    ],
)
def test_bad_input_is_a_sentence_and_nothing_is_written(tmp_path, change, error, sentence):
    with pytest.raises(error, match=sentence):
        run_benchmark(**{"methods": ["best"], "instances": picks(1), "out": tmp_path / "c", **change})
    assert not (tmp_path / "c").exists()


def test_instances_from_files(tmp_path):
    problem = DispersionProblem(np.ones((4, 4)) - np.eye(4), size=2, weight=0.5)
    problem.save(tmp_path / "saved.npz")
    write_mdplib(problem, tmp_path / "text.txt")
    table = run_benchmark(["greedy"], [tmp_path / "saved.npz", str(tmp_path / "text.txt")], warm_up=0).table
    assert table[["instance", "objective"]].values.tolist() == [["saved", 1.0], ["text", 1.0]]


def test_interruption_ends_the_solver_process_and_keeps_the_rows(tmp_path):
    log = tmp_path / "log"
    arguments = {
        "methods": {"first": ("first", {"journal": str(log)})},
        "instances": picks(1),
        "seeds": range(20),
        "out": tmp_path / "c",
        "repeat": False,
        "warm_up": 0,
    }

    def interrupt(done, total):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_benchmark(**arguments, progress=interrupt)
    _wait_for_the_end_of({int(line.split()[1]) for line in log.read_text().splitlines()})
    assert Benchmark.load(tmp_path / "c").missing == 15
    assert run_benchmark(**arguments).missing == 0
    assert sorted(int(line.split()[0]) for line in log.read_text().splitlines()) == list(range(20))


SCRIPT = """
import sys
from solvers.benchmark import run_benchmark
from solvers.participation import CutoffProblem
from solvers.registry import method as registered
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem
from tests.solvers.benchmark.misbehaving import picks

if __name__ == "__main__":
    folder, log, rows, jobs = sys.argv[1:]
    methods = {"first": ("first", {"journal": log})}
    run_benchmark(methods, picks(1), seeds=range(int(rows)), out=folder, jobs=int(jobs), repeat=False, warm_up=0)
"""


@pytest.mark.parametrize(("rows", "before"), few_of([(80, 20), (200, 60)], 1))
def test_a_comparison_that_is_killed_resumes_without_repeating_a_row(tmp_path, rows, before):
    folder, log = tmp_path / "c", tmp_path / "log"
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(folder), str(log), str(rows)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, "2"], env=environment, start_new_session=True) as process:
        until(lambda: _lines(folder / "rows.jsonl") >= before, process)
        os.killpg(process.pid, signal.SIGKILL)  # with loky's workers, which would wait for work for some minutes
    _wait_for_the_end_of({int(line.split()[1]) for line in log.read_text().splitlines()})
    written = (folder / "rows.jsonl").read_bytes()
    whole = written[: written.rfind(b"\n") + 1]
    kept = {json.loads(line)["seed"] for line in whole.splitlines()}
    assert before <= len(kept) < rows
    # A line that was cut off in the middle, as a full disk or a crash of the machine leaves it.
    (folder / "rows.jsonl").write_bytes(whole + whole.splitlines()[0][:50])
    log.unlink()
    subprocess.run([*command, "1"], env=environment, check=True, timeout=HANG)
    again = [int(line.split()[0]) for line in log.read_text().splitlines()]
    assert sorted(again) == sorted(set(range(rows)) - kept)
    benchmark = Benchmark.load(folder)
    assert benchmark.missing == 0
    assert benchmark.table["seed"].tolist() == list(range(rows))
    assert (folder / "rows.jsonl").read_bytes().startswith(whole)


def _lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _wait_for_the_end_of(processes):
    until(lambda: not any(map(_alive, processes)))


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


def test_the_librarys_decision_refutes_a_lie_that_nobody_else_in_the_table_does(scratch_registry):
    name = "fedgs-digits-twolabel-n30-m5-lognormal-r10"

    @registered(DispersionProblem, "settles", kind="exact")
    def settles(problem, run):
        x = np.zeros(problem.n, dtype=int)
        x[: problem.size] = 1
        run.tighten(problem.objective(x))
        return x

    row = run_benchmark(["settles"], [name], warm_up=0).table.iloc[0]
    assert row["verdict"] == "invalid"
    assert row["message"].startswith("claims the bound")
    assert "refuted by the instance library" in row["message"]
    # A value that somebody typed may be rounded: it is what gaps are measured to, and accuses nobody.
    row = run_benchmark(["settles"], [name], best_known={name: library.info(name).best_known}, warm_up=0).table.iloc[0]
    assert row["verdict"] == "ok"
    assert row["gap_to_best"] > 0


def test_the_version_written_down_is_that_of_the_code_not_of_the_installation(monkeypatch):
    monkeypatch.setattr(environment.importlib.metadata, "version", lambda package: "0.0.1")
    environment._version.cache_clear()
    try:
        found = environment.installed(("fedselect", "numpy"))
    finally:
        environment._version.cache_clear()
    assert (found["fedselect"], found["numpy"]) == (__version__, "0.0.1")


def test_a_cluster_that_cannot_be_reached_is_named(monkeypatch):
    """Ray's error is an OSError, which a command that writes a file would call a disk's."""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")
    runner = JobRunner(2, "threading")

    def lost(*calls):
        raise ConnectionError("Failed to connect to Ray cluster\nat length")

    monkeypatch.setattr(runner, "parallel", _Lost(lost))
    with pytest.raises(ConnectionError):  # another backend's is whatever it is
        list(runner.run(abs, [(1,), (2,)]))
    runner.backend = "ray"
    with pytest.raises(BenchmarkError, match=r"Ray cluster at 10\.0\.0\.9:6379: Failed to connect to Ray cluster \(is"):
        list(runner.run(abs, [(1,), (2,)]))


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_answers_is_a_sentence_at_once(monkeypatch, scheme):
    """Ray would try for minutes."""
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("RAY_ADDRESS", f"{scheme}127.0.0.1:{port}")
        JobRunner(2, "ray")  # something accepts connections there: the rest is Ray's to find out
    with pytest.raises(
        BenchmarkError, match=rf"nothing answers at {scheme}127\.0\.0\.1:{port}, where RAY_ADDRESS says"
    ):
        JobRunner(2, "ray")
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    JobRunner(2, "ray")


class _Lost:
    n_jobs = 2

    def __init__(self, call):
        self._call = call

    def __enter__(self):
        return self._call

    def __exit__(self, *exception):
        return None
