"""Passes that give parts of graphs to other code generators."""
