"""Small networks written in Relay, to try things with."""
