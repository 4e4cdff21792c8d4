"""Branch-and-bound trees, their policy and their log, and what methods share in a search."""
