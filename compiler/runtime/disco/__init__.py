"""Several workers that run the same program on parts of its data.

Threads or processes of this machine.
"""
