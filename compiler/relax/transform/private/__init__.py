"""Functions that only the module itself calls: their parameters, their results, and inlining them."""
