"""Design spaces: schedule rules, postprocessors, mutators, and the generators that use them."""
