"""Passes that ask the tuner."""
