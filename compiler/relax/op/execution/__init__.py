"""Operators that call functions, manage memory and say where code runs."""
