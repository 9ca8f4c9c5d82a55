"""Models from private data: labels, features or whole records that users have randomised."""

__all__: list[str] = []
