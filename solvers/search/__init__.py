"""Tree search: the queue of open nodes, and why a node is open no longer."""

from solvers.search.outcomes import NodeOutcome, add_outcomes
from solvers.search.queue import BestFirstQueue

__all__ = ["BestFirstQueue", "NodeOutcome", "add_outcomes"]
