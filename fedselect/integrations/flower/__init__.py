"""Flower as the engine: a selector in a real federation, or in a simulation on Ray.

`select_with` puts a selector into one of Flower's own strategies, whose client apps say which client a node is
(`say_partition`). For federations of this toolkit `SelectorStrategy` is the server's half, `client_app` the client's,
and `LocalGrid` a grid of clients in one process.
`server_app` and `experiment_client_app` make the two of a configuration file, `export_app` writes them as an app that
``flwr run`` starts. (Source: Beutel et al., Flower: A Friendly Federated Learning Framework, 2020.)
"""

from fedselect.errors import MissingExtraError
from solvers.environment import how_to_install

try:
    import flwr.serverapp  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        f"federations need Flower and PyTorch; one of them is missing or too old ({error}): "
        f"{how_to_install('fl,flower')}"
    ) from error

from fedselect.integrations.flower.app import experiment_client_app, export_app, run_on, server_app
from fedselect.integrations.flower.client import DroppedOut, LocalClient, LocalGrid, Update, client_app
from fedselect.integrations.flower.messages import Fault
from fedselect.integrations.flower.selecting import say_partition, select_with
from fedselect.integrations.flower.strategy import SelectorStrategy

__all__ = [
    "DroppedOut",
    "Fault",
    "LocalClient",
    "LocalGrid",
    "SelectorStrategy",
    "Update",
    "client_app",
    "experiment_client_app",
    "export_app",
    "run_on",
    "say_partition",
    "select_with",
    "server_app",
]
