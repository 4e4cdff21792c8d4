"""BlazeFL: its FedAvg, client after client on one core, and on more in its pool of threads."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import Any

os.environ["TQDM_DISABLE"] = "1"

import torch
from blazefl.contrib import fedavg
from simulators.work import RATE, Watch, Work


def run(work: Work, cores: int, done: Watch) -> None:
    """Do the work; kernels on one thread each, as its threads are the parallel part."""
    torch.set_num_threads(1)
    case, data, network = work.case, work.tensors(), work.model()

    class Models:
        """A copy of the first model, which is the sooner way to get one."""

        def select_model(self, name: str) -> Any:
            return copy.deepcopy(network)

    class Samples:
        """Batches of the file."""

        def get_dataloader(self, type_: Any, cid: int, **options: Any) -> Iterator[tuple[Any, Any]]:
            features, labels = data[cid]
            return [(features[rows], labels[rows]) for rows in torch.from_numpy(work.plan(server.round, cid))]

    class Server(fedavg.FedAvgBaseServerHandler):
        """Select the clients of the file."""

        def sample_clients(self) -> list[int]:
            return work.clients[self.round].tolist()

    parent = fedavg.FedAvgBaseClientTrainer if cores == 1 else fedavg.FedAvgThreadPoolClientTrainer

    class Trainer(parent):  # type: ignore[misc, valid-type]
        """Weigh by samples; BlazeFL's own trainer counts them once a step."""

        def train(self, *given: Any, **named: Any) -> Any:
            package = super().train(*given, **named)
            package.data_size = int(work.sizes[package.cid])
            return package

        def progress_fn(self, futures: Any) -> Any:
            return futures

    given = {"model_selector": Models(), "model_name": "own", "dataset": Samples(), "device": "cpu", "seed": 0}
    given |= {"num_clients": case.clients, "batch_size": case.batch}
    server = Server(global_round=case.rounds, sample_ratio=case.cohort / case.clients, **given)
    threads = {"num_parallels": cores} if cores > 1 else {}
    trainer = Trainer(epochs=1, lr=RATE, **given, **threads)
    while not server.if_stop():
        clients = server.sample_clients()
        trainer.local_process(server.downlink_package(), clients)
        for package in trainer.uplink_package():
            server.load(package)
        done(server.model.state_dict)


__all__ = ["run"]
