"""The public names of Apache TVM, and what stands under each of them here."""
