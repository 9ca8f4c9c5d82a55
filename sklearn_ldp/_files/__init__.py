"""Files: written whole or not at all, and read as lines, CSV or Parquet."""
