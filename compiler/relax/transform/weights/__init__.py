"""Parameters that are a model's weights: all behind the first "num_input" ones."""
