"""The papers' experiments, run again: one module a paper, and the frame they share."""
