"""The backend of `torch.compile`: graphs of ATen operators become machine code, and the rest stays with torch."""
