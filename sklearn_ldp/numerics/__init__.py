"""Pure functions of arrays: finite fields, and fast transforms."""
