"""Models from elsewhere and models written by hand: `frontend.torch`, `frontend.nn`."""
