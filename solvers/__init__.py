"""Client-selection problems of federated learning, and methods that solve them with a bound beside every answer."""
