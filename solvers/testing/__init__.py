"""Contract of methods, for those who write one: ``check_method("mine")`` plays it as the package plays its own."""

from solvers.testing.promises import PROMISES, ContractBroken, check_method

__all__ = ["PROMISES", "ContractBroken", "check_method"]
