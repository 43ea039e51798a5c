"""Cost models and the features that they learn from."""
