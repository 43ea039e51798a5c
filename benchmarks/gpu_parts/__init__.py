"""Parts of the benchmark of GPUs."""
