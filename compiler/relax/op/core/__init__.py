"""The table of operators: what a declaration holds, and the rules that declarations share."""
