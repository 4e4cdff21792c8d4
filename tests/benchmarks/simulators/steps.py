"""Measure a client's step with PyTorch's two memory formats and compiled, in pairs.

python tests/benchmarks/simulators/steps.py [--cases cnn resnet] [--turns 15] [--compile]

One client trains in each format after the other, on one thread, in turns whose order alternates. Printed are the median
milliseconds of processor time a step, and the median over turns of contiguous time / this time (above 1 is faster).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "benchmarks")]

import torch  # noqa: E402
from simulators.work import CASES, RATE, Work, write  # noqa: E402

from fedselect.data import Federation  # noqa: E402
from fedselect.training.client import LocalTraining  # noqa: E402
from fedselect.training.models import read_weights  # noqa: E402
from fedselect.training.settings import TrainingSettings  # noqa: E402


def main() -> None:
    """Measure as asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", default=["cnn", "resnet"])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--compile", action="store_true", help="torch.compile, too, which takes minutes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("case,steps,ms_a_step,times_as_fast")
    for case in options.cases:
        with tempfile.TemporaryDirectory() as folder:
            write(CASES[case], Path(folder) / "work.npz")
            work = Work(Path(folder) / "work.npz")
        took = measure(work, options.turns, options.compile)
        for name, times in took.items():
            faster = statistics.median(a / b for a, b in zip(took["contiguous"], times, strict=True))
            print(f"{case},{name},{statistics.median(times):.3g},{faster:.2f}", flush=True)


def measure(work: Work, turns: int, compiled: bool) -> dict[str, list[float]]:
    """Return the milliseconds a step in each turn, by format."""
    federation = Federation.from_tensors(work.tensors(), tuple(part[:1] for part in work.samples(0)), classes=10)
    clients, steps = work.clients[0].tolist()[:2], work.case.steps
    loops = {}
    images = ["channels_last"] if len(federation.test.shape) == 3 else []
    for name in ("contiguous", *images, *(["compiled"] if compiled else [])):
        settings = TrainingSettings(
            learning_rate=RATE,
            local_steps=steps,
            batch_size=work.case.batch,
            batching="never",
            memory_format="contiguous" if name == "compiled" else name,
        )
        model = work.model()
        weights = read_weights(model).clone()
        loops[name] = LocalTraining(model, federation, settings, 0, torch.device("cpu"))
        if name == "compiled":
            [worker] = loops[name]._one._free
            worker.model = torch.compile(model, dynamic=False)
        loops[name].train(clients, weights, 0)  # the first time chooses kernels, or compiles
    took: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(turns):
        for name in list(loops)[:: -1 if turn % 2 else 1]:
            start = time.process_time()
            loops[name].train(clients, weights, turn + 1)
            took[name].append(1000 * (time.process_time() - start) / (len(clients) * steps))
    return took


if __name__ == "__main__":
    main()
