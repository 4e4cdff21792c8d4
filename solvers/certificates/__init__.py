"""Proofs that anyone can check: what proves a bound, and two readers of it.

`check` computes in whole numbers and fractions, with NumPy, and trusts no rounding and no search: where it factors a
matrix in doubles, what these may hide is counted. With the writers it shares the arithmetic of
`solvers.certificates.exact`. ``check_certificate.py``, one file of Python's standard library, shares nothing with them:
it is the second opinion of searches. Other kinds have no other checker, and `check` runs it.
``solve(..., certificate=True)`` keeps a certificate beside the solution.
"""

from solvers.certificates.certificate import Certificate, problem_digest
from solvers.certificates.checking import PoolProof, check, check_pool
from solvers.errors import CertificateError

__all__ = ["Certificate", "CertificateError", "PoolProof", "check", "check_pool", "problem_digest"]
