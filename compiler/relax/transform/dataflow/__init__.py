"""Dataflow blocks: made of plain ones, put in order, and computed in place."""
