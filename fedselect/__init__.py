"""Federated client selection: selectors, availability, data, the FedAvg loop, experiments."""

from fedselect.neighbours import check_neighbours

check_neighbours()

from solvers.version import __version__  # noqa: E402  (not before it is sure whose ``solvers`` this is)

__all__ = ["__version__"]
