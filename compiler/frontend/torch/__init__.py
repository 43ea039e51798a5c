"""Models of PyTorch: exported programs, fx graphs, and the backend of `torch.compile`."""
