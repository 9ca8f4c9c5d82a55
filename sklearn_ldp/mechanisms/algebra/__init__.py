"""Finite fields, their vector spaces, and fast sums over them."""
