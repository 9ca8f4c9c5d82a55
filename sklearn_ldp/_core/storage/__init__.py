"""Files of reports, batches, checkpoints and aggregation, behind `sklearn_ldp.collection`."""
