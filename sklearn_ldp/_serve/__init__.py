"""A server for one question on a web page: it collects reports, and publishes results."""
