"""pfl-research: federated averaging in its simulated backend, in a process a core.

Its processes find each other when it is loaded, by two variables of the environment. So the first of them starts the
others here: each does its clients of every round, on one thread, and they add their sums up with PyTorch's gloo.
"""

# ruff: noqa: E402

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from typing import Any

CORES = len(os.sched_getaffinity(0))
if CORES > 1 and "PFL_WORKER_RANK" not in os.environ:
    with socket.create_server(("localhost", 0)) as free:
        os.environ["PFL_WORKER_ADDRESSES"] = ",".join([f"localhost:{free.getsockname()[1]}"] * CORES)
    engine, file, cores, _, weights = sys.argv[1:]
    endless = [sys.executable, "-m", "simulators.one", engine, file, cores, "inf"]  # they end with the first
    for rank in range(1, CORES):
        others = os.environ | {"PFL_WORKER_RANK": str(rank)}
        subprocess.Popen([*endless, f"{weights}.{rank}.npz"], env=others, stdout=subprocess.DEVNULL)
    os.environ["PFL_WORKER_RANK"] = "0"
RANK = int(os.environ.get("PFL_WORKER_RANK", "0"))

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from simulators.work import RATE, Watch, Work
from torch.nn.functional import cross_entropy


def run(work: Work, cores: int, done: Watch) -> None:
    """Do the work, or this process's part of it."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    case, data, network = work.case, work.tensors(), work.model()
    inner = type(network)

    class Model(inner):  # type: ignore[misc, valid-type]
        """The network, with the two methods that pfl asks for."""

        def loss(self, features: Any, labels: Any) -> Any:
            return cross_entropy(self(features), labels)

        def metrics(self, features: Any, labels: Any) -> dict[str, Any]:
            return {"loss": Weighted(0.0, len(labels))}

    network.__class__ = Model

    class Samples(PyTorchTensorDataset):
        """A client's samples, in the batches of the file."""

        plan: Any

        def iter(self, batch_size: int | None) -> Any:
            features, labels = self.raw_data
            if batch_size is None:
                yield self.raw_data
                return
            for rows in torch.from_numpy(self.plan):
                yield features[rows], labels[rows]

    clients = [Samples(pair, user_id=str(client)) for client, pair in enumerate(data)]
    # It draws a client for every process and leaves all but its own: so each process's own come so many times.
    order = (
        (client, t)
        for t, chosen in enumerate(work.clients.tolist())
        for client in chosen[RANK::CORES]
        for _ in range(CORES)
    )

    def samples(task: tuple[int, int]) -> Samples:
        client, t = task
        clients[client].plan = work.plan(t, client)
        return clients[client]

    class Told(TrainingProcessCallback):
        """The watch."""

        def after_central_iteration(
            self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            done(model.pytorch_model.state_dict)
            return False, Metrics()

    federated = FederatedDataset(samples, lambda: next(order))
    backend = SimulatedBackend(federated, federated, postprocessors=[WeightByDatapoints()])
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=case.rounds,
            evaluation_frequency=10**6,
            train_cohort_size=case.cohort,
            val_cohort_size=None,
        ),
        backend,
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=case.batch),
        callbacks=[Told()],
        send_metrics_to_platform=False,
    )
