"""A federation over TLS with registered nodes, on loopback, by the how-to's commands; run with ``-m deployment``."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from fedselect.experiments import Experiment, read_records, run_folder
from fedselect.integrations.flower import export_app
from tests.fedselect.integrations.flower.processes import Federation

CLIENTS = 2
pytestmark = [
    pytest.mark.deployment,
    pytest.mark.skipif(
        not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="needs OpenSSL and OpenSSH"
    ),
]


def test_a_run_over_tls_with_registered_nodes(tmp_path):
    """A node whose key is not registered, and which says it is client 1, neither takes part nor keeps client 1 out."""
    experiment = Experiment.from_tables(
        {
            "experiment": {"rounds": 1, "clients_per_round": CLIENTS, "seed": 5},
            "data": {"name": "digits", "n_clients": CLIENTS},
            "selector": {"name": "uniform"},
            "training": {"batching": "never"},
        }
    )
    app = export_app(experiment, tmp_path / "app")
    folder = run_folder(experiment, tmp_path / "app" / "runs")
    with Federation(tmp_path, encrypted=True) as federation:
        federation.superlink()
        stranger = federation.supernode(1, CLIENTS, registered=False)
        for client in range(CLIENTS):
            federation.supernode(client, CLIENTS)
        assert federation.run(app).wait(timeout=300) == 0, federation.logs()
        assert stranger.poll() is not None, federation.logs()
    (record,) = read_records(folder)
    assert record["returned"] == record["selected"] == [0, 1]
    assert record["faults"] == []
    assert (folder / "summary.json").exists()
