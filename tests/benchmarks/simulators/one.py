"""Let one engine do the work of one file in this process, and print what was measured as a line of JSON.

python -m simulators.one ENGINE FILE CORES SECONDS WEIGHTS
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import sys
import time

started = time.time()


def main(engine: str, file: str, cores: str, seconds: str, weights: str) -> None:
    """Measure, and keep the weights in a file."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = cores
    os.sched_setaffinity(0, range(int(cores)))

    import numpy as np
    from simulators.work import EnoughError, Watch, Work

    work = Work(file)
    watch = Watch(work, float(seconds))
    output, sys.stdout = sys.stdout, sys.stderr
    with contextlib.suppress(EnoughError):
        importlib.import_module(f"simulators.engines.{engine}").run(work, int(cores), watch)
    np.savez(weights, **{name: watch.weights[name] for name in work.initial})
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"first": watch.first - started, "rounds": watch.times, "memory": memory}
    print(json.dumps(found), file=output, flush=True)
    os._exit(0)  # without taking leave: some engines' helpers do so for seconds


if __name__ == "__main__":
    main(*sys.argv[1:])
