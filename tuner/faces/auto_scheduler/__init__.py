"""auto_scheduler: definitions tuned without a template, by the one engine."""
