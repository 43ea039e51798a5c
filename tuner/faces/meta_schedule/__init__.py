"""The meta_schedule face: spaces, databases and tuning by the names people know, on the one engine."""
