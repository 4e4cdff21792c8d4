"""fluke: its FedAvg with clients' and server's classes, without evaluation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ["TERM"] = "dumb"  # without pictures of progress

import torch
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.client import Client
from fluke.config import OptimizerConfigurator
from fluke.data import FastDataLoader
from fluke.server import Server
from simulators.work import RATE, Watch, Work


def run(work: Work, cores: int, done: Watch) -> None:
    """Do the work, on so many of PyTorch's threads."""
    torch.set_num_threads(cores)
    case, data = work.case, work.tensors()
    FlukeENV().set_seed(0)
    FlukeENV().set_device("cpu")
    FlukeENV().set_inmemory(True)
    FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    at = 0

    class Batches(FastDataLoader):
        """A client's batches of the round, as the file has them; one pass is all steps."""

        client = 0

        def __iter__(self) -> Iterator[tuple[Any, Any]]:
            features, labels = self.tensors
            for rows in torch.from_numpy(work.plan(at, self.client)):
                yield features[rows], labels[rows]

        def __len__(self) -> int:
            return case.steps

    class Written(Server):
        """Select the clients of the file."""

        def get_eligible_clients(self, eligible_perc: float) -> list[Client]:
            return [self.clients[k] for k in work.clients[at]]

    optimizer = OptimizerConfigurator(DDict(name="SGD", lr=RATE), DDict(name="StepLR", step_size=1, gamma=1.0))
    clients = []
    for client, pair in enumerate(data):
        loader = Batches(*pair, num_labels=10, batch_size=case.batch)
        loader.client = client
        clients.append(Client(client, loader, None, optimizer, torch.nn.CrossEntropyLoss(), local_epochs=1))
    server = Written(work.model(), None, clients, weighted=True)
    algorithm = FedAVG(case.clients, None, DDict(), clients=clients, server=server)

    class Told:
        """The watch, in the place of an observer."""

        def end_round(self, round: int) -> None:
            nonlocal at
            at = round
            done(server.model.state_dict)

        def __getattr__(self, name: str) -> Any:
            return lambda *args, **kwargs: None

    algorithm.attach(Told())
    algorithm.run(case.rounds, case.cohort / case.clients)
