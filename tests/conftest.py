"""Being here puts this folder on the import path, for helpers that several kinds of test share."""
