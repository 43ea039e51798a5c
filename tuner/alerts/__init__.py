"""Alerts: rules that are looked at again and again, and how to tell of what they find."""
