"""Shows a user's picture to trained networks. The answer is a digit, or "I don't know"; see `bench.predict`."""
