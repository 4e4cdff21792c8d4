"""A SuperLink and four SuperNodes on loopback: a node is killed and restarted, then the server; nothing is lost.

It takes minutes, one of which Flower needs to miss a killed node: run with ``-m deployment``.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from fedselect.availability import Trace
from fedselect.experiments import Experiment, build, read_records, run_folder
from fedselect.experiments.folder import load_checkpoint
from fedselect.integrations.flower import export_app
from tests.fedselect.integrations.flower.processes import Federation, kill

CLIENTS, ROUNDS = 4, 5
pytestmark = pytest.mark.deployment


class Recorded:
    """Who returned, as the records say: a dropout model for playing them again."""

    def __init__(self, returned):
        self._returned = returned

    def returned(self, round):
        return self._returned[round]

    def rates(self, round):
        return self._returned[round].astype(float)


def masks(records, key) -> np.ndarray:
    mask = np.zeros((len(records), CLIENTS), dtype=bool)
    for row, record in zip(mask, records, strict=True):
        row[record[key]] = True
    return mask


def test_a_node_and_the_server_are_killed_and_nothing_is_lost(tmp_path):
    experiment = Experiment.from_tables(
        {
            "experiment": {"rounds": ROUNDS, "clients_per_round": CLIENTS, "seed": 5},
            "data": {"name": "digits", "n_clients": CLIENTS},
            "selector": {"name": "fedau"},
            "training": {"batching": "never"},
        }
    )
    app = export_app(experiment, tmp_path / "app")
    folder = run_folder(experiment, tmp_path / "app" / "runs")

    def wait(rounds: int) -> None:
        """Until so many rounds stand in the records, and a little more, so that the next one is under way."""
        deadline = time.monotonic() + 300
        while not (folder / "rounds.jsonl").exists() or len(read_records(folder)) < rounds:
            assert time.monotonic() < deadline, federation.logs()
            time.sleep(0.1)
        time.sleep(1)

    with Federation(tmp_path) as federation:
        server = federation.superlink()
        nodes = [federation.supernode(client, CLIENTS) for client in range(CLIENTS)]
        running = federation.run(app)
        wait(1)
        kill(nodes[2])
        federation.supernode(2, CLIENTS)
        wait(3)
        before = load_checkpoint(folder / "checkpoint.npz")
        kill(server)
        kill(running)
        assert len(read_records(folder)) == int(before["round"]) < ROUNDS
        federation.superlink()
        assert federation.run(app).wait(timeout=300) == 0, federation.logs()

    records = read_records(folder)
    assert (folder / "summary.json").exists()
    assert [record["round"] for record in records] == list(range(ROUNDS))
    # Who failed, and when: client 2 in round 1, which the SuperLink reports in its name; then it is back.
    assert [record["missing"] for record in records] == [[], [2], [], [], []]
    (fault,) = records[1]["faults"]
    assert (fault["client"], fault["code"]) == (2, 5)
    assert all(record["returned"] == record["selected"] for record in records if record["round"] != 1)
    # What happened there, played again by the own loop without any break, gives the same model and selector.
    loop = build(experiment)
    there, back = Trace(masks(records, "available")), Recorded(masks(records, "returned"))
    loop.world = replace(loop.world, availability=there, dropout=back)
    for record in records:
        assert loop.step(evaluate=False).selection.weights.tolist() == record["weights"]
    end = load_checkpoint(folder / "checkpoint.npz")
    assert end["weights"].tobytes() == loop.weights.tobytes()
    for key, value in loop.selector.state_dict().items():
        assert np.array_equal(end["selector"][key], value), key
