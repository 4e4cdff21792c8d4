"""Flower: its FedAvg strategy and a ``ClientApp``; the nodes answer in fedselect's ``LocalGrid``, or on Ray."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Iterable
from typing import Any

os.environ["FLWR_TELEMETRY_ENABLED"] = os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_DEDUP_LOGS"] = "0"

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from simulators.work import EnoughError, Watch, Work, train

client_app = ClientApp()


@functools.cache
def held() -> tuple[Work, list[Any], Any]:
    """The file, its tensors and a model: read once in a process."""
    torch.set_num_threads(int(os.environ["SIMULATORS_THREADS"]))
    work = Work(os.environ["SIMULATORS_FILE"])
    return work, work.tensors(), work.model()


@client_app.train()
def answer(message: Message, context: Context) -> Message:
    """Train the client that the message names."""
    work, data, model = held()
    task = message.content["config"]
    client = int(task["client"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(model, data[client], work.plan(int(task["round"]), client))
    metrics = MetricRecord({"num-examples": int(work.sizes[client])})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


class Written(FedAvg):
    """FedAvg over the clients of the file: client k is the k-th node."""

    def __init__(self, work: Work) -> None:
        super().__init__(fraction_evaluate=0.0)
        self.work = work

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        nodes = sorted(grid.get_node_ids())
        for client in self.work.clients[server_round - 1].tolist():
            task = ConfigRecord({"client": client, "round": server_round - 1})
            yield Message(RecordDict({"arrays": arrays, "config": task}), nodes[client], "train")


def serve(grid: Grid, work: Work, done: Watch) -> None:
    """Let the strategy do all rounds, once all nodes are there; its central evaluation is the watch."""
    while len(list(grid.get_node_ids())) < work.case.clients:
        time.sleep(0.01)

    def evaluate(server_round: int, arrays: ArrayRecord) -> None:
        if server_round:
            done(arrays.to_torch_state_dict)

    Written(work).start(grid, ArrayRecord(work.model().state_dict()), work.case.rounds, evaluate_fn=evaluate)


def prepare(work: Work, threads: int) -> None:
    """Say to all processes what the file is, and let Flower be quiet."""
    os.environ["SIMULATORS_FILE"], os.environ["SIMULATORS_THREADS"] = work.path, str(threads)
    logging.getLogger("flwr").setLevel(logging.ERROR)


def run(work: Work, cores: int, done: Watch) -> None:
    """Do the work in this process, on so many of PyTorch's threads."""
    from fedselect.integrations.flower import LocalGrid

    prepare(work, cores)
    serve(LocalGrid(client_app, work.case.clients), work, done)


def run_on_ray(work: Work, cores: int, done: Watch) -> None:
    """Do the work in Flower's simulation engine: one actor a core, each on one thread."""
    from flwr.simulation import run_simulation

    prepare(work, 1)
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            serve(grid, work, done)
        except EnoughError:
            return

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": cores}}
    run_simulation(server_app, client_app, num_supernodes=work.case.clients, backend_config=resources)
