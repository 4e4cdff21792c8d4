"""``python simulate.py CONFIG OUT``: every ``[compare.LABEL]`` selector of a file, in one simulation on Ray."""

from __future__ import annotations

import sys
from dataclasses import replace

from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from fedselect.experiments import Choice, read_config
from fedselect.integrations.flower import experiment_client_app, run_on


def main(config: str, out: str) -> None:
    experiment, variants = read_config(config)
    server = ServerApp()

    @server.main()
    def play(grid, context):
        for table in variants.values():
            options = dict(table)
            choice = Choice(options.pop("name"), options)
            # A busy machine may take minutes to start the actors: whoever is late would miss rounds.
            run_on(grid, replace(experiment, selector=choice), out, identity_timeout=240.0, patience=240.0)

    # The clients do not depend on the selector, so one simulation serves all.
    run_simulation(
        server,
        experiment_client_app(experiment),
        num_supernodes=experiment.data.options["n_clients"],
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
