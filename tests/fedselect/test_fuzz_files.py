"""Mutated files of every kind: a value or one of our sentences, nothing else, in bounded time and memory.

``make test`` tries a few of each kind; ``-m thorough`` all 20 000. A case is its number: the same mutation every time.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
import resource
import signal
import sys
import zipfile
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import tomli_w

from fedselect.availability import read_trace, write_trace
from fedselect.errors import TOOLKIT_ERRORS
from fedselect.experiments import Experiment, RecordedRun, read_config
from fedselect.experiments.comparison import mean_table, read_manifest, summary_table
from fedselect.experiments.folder import load_checkpoint, save_checkpoint
from fedselect.experiments.provenance import Origin, read_origin
from fedselect.measures import run_gaps, run_measures
from fedselect.recording import fetch_mdplib
from fedselect.reports.runs import facts_of, read_runs, results_table
from solvers import Solution, load, solve
from solvers.benchmark import Benchmark, run_benchmark
from solvers.certificates import Certificate
from solvers.dispersion import (
    DispersionProblem,
    read_densest_subgraph,
    read_mdplib,
    read_points,
    read_tsplib,
    write_mdplib,
)
from solvers.instances.library import pack, unpack
from tests.fedselect.experiments.test_damaged_folders import RECORD

#: Cases of each kind, and how many of them ``make test`` tries.
CASES, FEW = 1000, 12

#: Seconds and bytes that one mutated file of a few kilobytes may take.
SECONDS, ROOM = 20, 2**30

#: Events that nothing which reads may cause (`sys.addaudithook`); hooks cannot be taken away, so one stays, silent.
FORBIDDEN = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")
_caused: list[str] = []
_watching = [False]


def _hook(event, arguments):
    if _watching[0] and event in FORBIDDEN:
        _caused.append(event)


sys.addaudithook(_hook)

#: Values that stand in for others: of wrong types, too large, of no meaning.
STRANGE = (
    "-1",
    "0",
    "1e999",
    "3000000000",
    "9" * 400,
    '""',
    '"x"',
    "[]",
    "{}",
    "[[1]]",
    "null",
    "true",
    '"\\u0000"',
    "²",
    "nan",
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to three changes: bytes, pieces, an end, or a value in text that becomes another."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        place, length = rng.randrange(len(found) + 1), rng.randint(1, 40)
        match rng.randrange(7):
            case 0:
                found[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del found[place : place + length]
            case 2:
                found[place:place] = bytes(rng.randrange(256) for _ in range(length))
            case 3:
                del found[place:]
            case 4:
                found[place:place] = found[rng.randrange(len(found) + 1) :][:length]
            case _:
                words = [i for i, letter in enumerate(found) if letter in b",:= [\n"]
                if words:
                    first = rng.choice(words) + 1
                    last = next((i for i in range(first, len(found)) if found[i] in b",]}\n "), len(found))
                    found[first:last] = rng.choice(STRANGE).encode()
    return bytes(found)


def mutated_archive(data: bytes, rng: random.Random) -> bytes:
    """An archive whose members are mutated and whose checksums are right, as a forger makes it; or mutated bytes."""
    if rng.random() < 0.4:
        return mutated(data, rng)
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        names = archive.namelist()
        chosen = rng.choice(names)
        for name in names:
            member = archive.read(name)
            if name == chosen:
                if rng.random() < 0.1:
                    continue
                member = wide(member, rng) if name in ("header.npy", "tree.npy") else mutated(member, rng)
            made.writestr(name, member)
    return stream.getvalue()


def wide(member: bytes, rng: random.Random) -> bytes:
    """A text in an array, mutated as text: an array of it again."""
    text = str(np.load(io.BytesIO(member)))
    text = mutated(text.encode(), rng).decode("utf-8", errors="replace").replace("\0", "")
    stream = io.BytesIO()
    np.save(stream, np.array(text))
    return stream.getvalue()


def packed_with(compress, expand, change):
    """Mutate what a compressed file holds, or the file."""
    return lambda data, rng: mutated(data, rng) if rng.random() < 0.5 else compress(change(expand(data), rng))


def read_folder(path):
    """What a report reads of a run and of a comparison that it is in, but for the pictures."""
    run = RecordedRun.read(path.parent)
    run_gaps(run.table)
    facts_of([run])
    manifest = read_manifest(path.parents[1])
    for each in read_runs(path.parents[1], manifest).values():
        finished = [(run.seed, run.results) for run in each.values() if run and run.results]
        if finished:
            results_table(mean_table(summary_table(("a", seed, results) for seed, results in finished)))


#: Name to: file name, mutation, reader.
KINDS = {
    "problem": ("p.npz", mutated_archive, load),
    "solution": ("s.npz", mutated_archive, Solution.load),
    "certificate": ("c.npz", mutated_archive, Certificate.load),
    "instance": (
        "i.xz",
        packed_with(lambda data: lzma.compress(data, preset=0), lzma.decompress, mutated_archive),
        lambda path: unpack(path.read_bytes(), str(path)),
    ),
    "checkpoint": ("k.npz", mutated_archive, load_checkpoint),
    "mdplib": ("m.txt", mutated, read_mdplib),
    "graph": ("g.dat", mutated, lambda path: read_densest_subgraph(path, 2)),
    "tsplib": ("t.tsp", mutated, lambda path: read_tsplib(path, 2)),
    "npy": ("a.npy", mutated, read_points),
    "points": ("a.csv", mutated, read_points),
    "trace": ("w.csv", mutated, read_trace),
    "trace.gz": ("l.csv.gz", packed_with(lambda data: gzip.compress(data, 1), gzip.decompress, mutated), read_trace),
    "parquet": ("p.parquet", mutated, read_trace),
    "configuration": ("e.toml", mutated, lambda path: read_config(path, trusted=False)),
    "archive": ("z.zip", mutated, lambda path: fetch_mdplib(str(path), path.parent / "fetched")),
    "origin": ("origin.json", mutated, read_origin),
    "run": ("compared/a-s0/rounds.jsonl", mutated, read_folder),
    "settings": ("compared/a-s0/config.toml", mutated, read_folder),
    "summary": ("compared/a-s0/summary.json", mutated, read_folder),
    "comparison": ("compared/comparison.json", mutated, lambda path: read_folder(path.parent / "a-s0/config.toml")),
    "benchmark": ("bench/benchmark.json", mutated, lambda path: read_benchmark(path.parent)),
    "rows": ("bench/rows.jsonl", mutated, lambda path: read_benchmark(path.parent)),
}


def read_benchmark(folder):
    found = Benchmark.load(folder)
    return found.table, found.traces, found.missing


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """One sound file of every kind."""
    folder = tmp_path_factory.mktemp("sound")
    rng = np.random.default_rng(0)
    points = rng.random((8, 2)).round(3)
    problem = DispersionProblem(np.linalg.norm(points[:, None] - points, axis=2), np.arange(8.0), size=3, weight=0.5)
    solution = solve(problem, "branch-and-bound", certificate=True)
    problem.save(folder / "p.npz")
    solution.save(folder / "s.npz")
    solution.certificate.save(folder / "c.npz")
    (folder / "i.xz").write_bytes(pack(problem, solution.x))
    save_checkpoint(
        folder / "k.npz", {"round": 2, "weights": points, "selector": {"counts": np.arange(3), "name": "a"}}
    )
    write_mdplib(DispersionProblem(problem.distances.round(3), np.zeros(8), size=3, weight=0.5), folder / "m.txt")
    (folder / "g.dat").write_text("6 4\n1 2\n2 3 1.5\n3 4\n5 6\n")
    block = [" ".join(str(int(i != j and max(i, j) < 2)) for j in range(4)) for i in range(4)]
    (folder / "q.dat").write_text("4\n" + "\n".join([*block, "0 1 2 3", "1 0 4 5", "2 4 0 6", "3 5 6 0"]) + "\n")
    (folder / "t.tsp").write_text("NAME: x\nDIMENSION: 3\nNODE_COORD_SECTION\n1 0.5 1\n2 1 1\n3 2 0\nEOF\n")
    np.save(folder / "a.npy", points)
    np.savetxt(folder / "a.csv", points, delimiter=",")
    there = rng.random((6, 5)) < 0.6
    write_trace(folder / "w.csv", there, "wide")
    write_trace(folder / "l.csv.gz", there)
    pd.DataFrame({"round": [0, 1, 1], "client": [0, 0, 2]}).to_parquet(folder / "p.parquet", index=False)
    experiment = Experiment("compared", rounds=1, clients_per_round=2)
    tables = experiment.tables()
    tables["data"] |= {"n_clients": 8}
    (folder / "e.toml").write_bytes(tomli_w.dumps(tables).encode())
    with zipfile.ZipFile(folder / "z.zip", "w") as archive:
        archive.write(folder / "m.txt", "m.txt")
        archive.writestr("best_known.csv", "name,m,best_known\nm,3,1.5\n")
    origin = Origin({"a": "b"}, {"c": "d"}, {"numpy": "2"}, "x86", ("from round 2 on: numpy",))
    origin.write(folder)
    run = folder / "compared/a-s0"
    run.mkdir(parents=True)
    (run / "config.toml").write_bytes(tomli_w.dumps(tables).encode())
    origin.write(run)
    solved = {"objective": 1.5, "bound": 2.0, "gap": 0.3, "seconds": 0.1, "status": "feasible"}
    (run / "rounds.jsonl").write_text(json.dumps(RECORD | {"solution": solved}) + "\n")
    measures = dict.fromkeys((each.name for each in run_measures() if not each.needs), 0.5)
    (run / "summary.json").write_text(json.dumps(measures))
    manifest = {"format": "selectors-comparison/1", "seeds": [0], "runs": {"a": ["a-s0"]}}
    (folder / "compared/comparison.json").write_text(json.dumps(manifest))
    run_benchmark(["greedy"], {"small": problem}, time_limits=[5.0], out=folder / "bench", jobs=1, warm_up=0)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def bounded():
    """Seconds, memory and forbidden events while a mutated file is read."""

    def late(*_):
        raise AssertionError(f"reading took more than {SECONDS} s")

    with open("/proc/self/statm") as stream:
        have = int(stream.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (have + ROOM, limits[1]))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    _watching[0] = True
    try:
        yield
    finally:
        _watching[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, before)


def play(kind: str, cases: range, sound: dict[str, bytes], folder) -> int:
    """Read mutated files of one kind; returns how many were refused with a sentence."""
    name, mutate, read = KINDS[kind]
    for other, data in sound.items():
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_bytes(data)
    read(folder / name)
    refused = 0
    for case in cases:
        (folder / name).write_bytes(mutate(sound[name], random.Random(f"{kind} {case}")))
        try:
            with bounded():
                read(folder / name)
        except TOOLKIT_ERRORS:
            refused += 1
        except BaseException as error:
            pytest.fail(f"{kind}, case {case}: {type(error).__name__}: {error}")
        assert not _caused, (kind, case, _caused)
    return refused


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited with Linux's setrlimit")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_mutated_files(kind, sound, tmp_path):
    assert play(kind, range(FEW), sound, tmp_path) > 0


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited with Linux's setrlimit")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files(kind, sound, tmp_path):
    assert play(kind, range(FEW, CASES), sound, tmp_path) > 0
