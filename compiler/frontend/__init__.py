"""Models of other frameworks, and models written by hand, become graphs."""
