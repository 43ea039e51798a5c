"""Passes over modules: objects with a name, in sequences, under a context that configures and watches them."""
