"""Several workers that run the same program on parts of its data: threads or processes of this machine."""
