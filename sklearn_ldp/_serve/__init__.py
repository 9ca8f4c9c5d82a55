"""A server for one question on a web page: reports in, sealed batches and results out."""
