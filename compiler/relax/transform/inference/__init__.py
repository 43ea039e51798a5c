"""Rewrites of models before they run: simpler operators, folded weights, lower precision."""
