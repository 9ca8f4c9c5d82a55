"""Files of reports, batches, checkpoints and aggregation; the code of `sklearn_ldp.collection`."""
