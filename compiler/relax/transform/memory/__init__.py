"""Memory of graphs: how long arrays live, where they lie in an arena, what is written in place, what is given back."""
