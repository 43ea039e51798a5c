"""The meta_schedule face: spaces, databases and tuning under TVM's names, on the one engine."""
