"""pfl-research: federated averaging in its simulated backend, in one process."""

from __future__ import annotations

import itertools
import logging
from typing import Any

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
    """Do the work, on so many of PyTorch's threads."""
    torch.set_num_threads(cores)
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
    order = itertools.chain.from_iterable(
        ((client, t) for client in chosen) for t, chosen in enumerate(work.clients.tolist())
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
