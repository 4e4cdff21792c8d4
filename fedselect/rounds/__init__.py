"""One round as every engine plays it: protocol, scenario, decision, history, and rounds without training."""
