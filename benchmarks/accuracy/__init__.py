"""Accuracy of defaults, on populations that nothing was tuned on."""
