"""Branch-and-bound trees, their portfolio, their logs and certificates, and what methods share in a search."""
