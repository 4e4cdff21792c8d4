"""Proofs that anyone can check: what proves a bound, and an independent reader of it.

The readers share no code with the solvers and trust no rounding: whole numbers and fractions, NumPy and the standard
library. ``solve(..., certificate=True)`` keeps a certificate beside the solution.
"""

from solvers.certificates.certificate import Certificate, problem_digest
from solvers.certificates.checking import check
from solvers.errors import CertificateError

__all__ = ["Certificate", "CertificateError", "check", "problem_digest"]
