"""On which device values live."""
