"""FLGo: its FedAvg's server and clients on a task in a folder; clients side by side in its pool of threads."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import flgo
import torch
from flgo.algorithm import fedavg
from flgo.benchmark.toolkits.cv.classification import FromDatasetPipe, GeneralCalculator
from flgo.experiment.logger.simple_logger import SimpleLogger
from simulators.work import RATE, Watch, Work
from torch.utils.data import Subset, TensorDataset


def run(work: Work, cores: int, done: Watch) -> None:
    """Do the work; kernels on one thread each, as its threads are the parallel part."""
    sys.argv[1:] = []  # which FLGo reads for options of its own
    case, data = work.case, work.tensors()
    everything = TensorDataset(*map(torch.cat, zip(*data, strict=True)))

    class Pipe(FromDatasetPipe):
        """Samples of the file, which the task on disk points into."""

        def __init__(self, task: str) -> None:
            super().__init__(task, everything, None, None)

        def load_data(self, options: Any) -> dict[str, Any]:
            """Make what FLGo 0.4.4 makes with an older PyTorch: 2.13 refuses its class of a client's samples."""
            named = self.feddata["client_names"]
            return {"server": {"test": None, "val": None}} | {
                name: {"train": Subset(everything, self.feddata[name]["data"])} for name in named
            }

    class Server(fedavg.Server):
        """Select the clients of the file."""

        def sample(self) -> list[int]:
            return work.clients[self.current_round - 1].tolist()

        def iterate(self) -> Any:
            changed = super().iterate()
            done(lambda: {name.removeprefix("model."): part for name, part in self.model.named_parameters()})
            return changed

    class Client(fedavg.Client):
        """Train on the batches of the file, without a loader, which would shuffle."""

        def get_batch_data(self) -> tuple[Any, Any]:
            rows = work.plan(self.server.current_round - 1, self.id)[self.current_steps]
            self.current_steps = (self.current_steps + 1) % self.num_steps
            features, labels = data[self.id]
            return features[rows], labels[rows]

    class Quiet(SimpleLogger):
        """Log nothing."""

        def info(self, *given: Any, **named: Any) -> None:
            pass

    def module(name: str, **held: Any) -> ModuleType:
        made = sys.modules[name] = ModuleType(name)
        vars(made).update(held)
        return made

    module("simulators_task")
    module("simulators_task.core", TaskPipe=Pipe, TaskCalculator=GeneralCalculator)
    folder = Path(tempfile.mkdtemp())
    for name in ("record", "log"):
        (folder / name).mkdir()
    (folder / "info").write_text(json.dumps({"benchmark": "simulators_task"}))
    names = [f"client {client}" for client in range(case.clients)]
    places = [list(range(start, start + size)) for start, size in zip(work.starts, work.sizes, strict=True)]
    held = {name: {"data": list(map(int, own))} for name, own in zip(names, places, strict=True)}
    (folder / "data.json").write_text(json.dumps({"client_names": names, **held}))
    logging.disable(logging.WARNING)
    options = {
        "num_rounds": case.rounds,
        "num_steps": case.steps,
        "batch_size": case.batch,
        "learning_rate": RATE,
        "eval_interval": 0,
        "train_holdout": 0.0,
        "num_parallels": cores,
        "parallel_type": "t",
        "no_log_console": True,
        "no_tqdm": True,
        "torch_num_threads": 1,
        "proportion": case.cohort / case.clients,
    }
    model = flgo.convert_model(lambda: work.model())
    flgo.init(str(folder), module("written", Server=Server, Client=Client), options, model, Logger=Quiet).run()
