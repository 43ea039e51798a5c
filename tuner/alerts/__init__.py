"""Alerts: rules that are checked again and again, and how to report what they find."""
