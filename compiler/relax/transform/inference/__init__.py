"""What models are rewritten to before they run: simpler operators, folded weights, lower precision."""
