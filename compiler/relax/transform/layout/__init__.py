"""How tensors lie in memory."""
