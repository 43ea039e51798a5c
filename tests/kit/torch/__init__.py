"""Models of PyTorch for tests; nothing here is imported where torch is not installed."""
