"""The backend of `torch.compile`.

Graphs of ATen operators become machine code, and the rest stays with torch.
"""
