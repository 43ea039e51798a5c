"""Databases of tuning records: in memory, in JSON files, in the SQL store."""
