"""Other people's engines that drive our selectors, and trackers that runs are written to."""
