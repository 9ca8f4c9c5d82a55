"""Files: whole or not at all, and read line by line with errors that say where."""
