"""Wall times of one experiment on every engine: own loop, in-process grid, Flower's simulation on Ray, SuperLink.

    python tests/benchmarks/bench_flower.py [--clients 4] [--selected 4] [--rounds 10] [--engines own,grid]

``total`` is from the start of the engine's first process to the end of its last; ``decide`` and ``train`` are medians
over rounds (evaluation, which is the same everywhere, is left out). The last column says whether the final model has
the bits of the first engine's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ["FLWR_LOG_LEVEL"] = "ERROR"
sys.path.insert(0, str(Path(__file__).parents[2]))

import tomli_w

from fedselect.experiments import Experiment, read_records, run, run_folder
from fedselect.experiments.folder import load_checkpoint
from fedselect.integrations.flower import LocalGrid, experiment_client_app, export_app, run_on
from tests.fedselect.integrations.flower import processes, simulate


def own(experiment: Experiment, out: Path) -> None:
    run(experiment, out)


def grid(experiment: Experiment, out: Path) -> None:
    run_on(LocalGrid(experiment_client_app(experiment), experiment.data.options["n_clients"]), experiment, out)


def ray(experiment: Experiment, out: Path) -> None:
    config = out.with_suffix(".toml")
    tables = experiment.tables()
    config.write_text(tomli_w.dumps(tables | {"compare": {"it": tables["selector"]}}))
    command = [sys.executable, simulate.__file__, config, out]
    subprocess.run(command, env=processes.environment(out.parent), capture_output=True, check=True)


def superlink(experiment: Experiment, out: Path) -> None:
    out.mkdir()
    app = export_app(experiment, out / "app")
    clients = experiment.data.options["n_clients"]
    with processes.Federation(out) as federation:
        federation.superlink()
        for client in range(clients):
            federation.supernode(client, clients)
        if federation.run(app).wait() != 0:
            raise SystemExit(federation.logs())
    for entry in (out / "app" / "runs").iterdir():  # where the other engines have theirs
        entry.rename(out / entry.name)


ENGINES = {each.__name__: each for each in (own, grid, ray, superlink)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--selected", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--selector", default="e3cs")
    parser.add_argument("--engines", default=",".join(ENGINES))
    options = parser.parse_args()
    experiment = Experiment.from_tables(
        {
            "experiment": {"name": "engines", "rounds": options.rounds, "clients_per_round": options.selected},
            "data": {"name": "digits", "n_clients": options.clients},
            "selector": {"name": options.selector},
            "training": {"batching": "never"},
        }
    )
    print(
        f"{options.selector}, N = {options.clients}, m = {options.selected}, {options.rounds} rounds; "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start"
    )
    print(f"{'engine':<12}{'total s':>10}{'decide, s':>12}{'train, s':>12}  same bits")
    with tempfile.TemporaryDirectory() as scratch:
        # The first run of a process pays for imports and compilation.
        run(replace(experiment, rounds=1), Path(scratch) / "warm")
        reference = None
        for name in options.engines.split(","):
            out = Path(scratch) / name
            start = time.perf_counter()
            ENGINES[name](experiment, out)
            total = time.perf_counter() - start
            folder = run_folder(experiment, out)
            decide, train = (
                statistics.median(record[key] for record in read_records(folder))
                for key in ("select_seconds", "train_seconds")
            )
            bits = load_checkpoint(folder / "checkpoint.npz")["weights"].tobytes()
            reference = reference or bits
            print(f"{name:<12}{total:>10.2f}{decide:>12.4f}{train:>12.4f}  {bits == reference}", flush=True)


if __name__ == "__main__":
    main()
