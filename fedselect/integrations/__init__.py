"""Other people's engines that drive our selectors, one package each; nothing else of ``fedselect`` imports them."""
