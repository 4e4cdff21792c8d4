"""Arithmetic that proofs rest on: rounded problems, forms, tangents, rows, what can be had, in whole numbers.

Matrices alone are factored in doubles, with all that rounding may hide counted against the proof.

Writers, the search and `solvers.certificates.check` share it. The second opinion is
``solvers/certificates/check_certificate.py``, one file that shares nothing with it.
"""
