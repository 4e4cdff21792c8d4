"""Search: the queue of open nodes, why a node is open no longer, and the pool of the best selections."""

from solvers.search.outcomes import NodeOutcome, add_outcomes
from solvers.search.pool import DiverseIncumbents, Incumbents, Pool, PoolMember, PoolRequest
from solvers.search.queue import BestFirstQueue

__all__ = [
    "BestFirstQueue",
    "DiverseIncumbents",
    "Incumbents",
    "NodeOutcome",
    "Pool",
    "PoolMember",
    "PoolRequest",
    "add_outcomes",
]
