"""Deadline: as many clients, or as much value, as one shared uplink takes before the deadline of a round (FedCS)."""

from solvers.deadline import methods
from solvers.deadline.problem import DeadlineProblem
from solvers.deadline.theory import fedcs_order

__all__ = ["DeadlineProblem", "fedcs_order", "methods"]
