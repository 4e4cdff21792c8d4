"""What CA-Fed proves around these problems: the constants of its bound, and its guideline B."""
