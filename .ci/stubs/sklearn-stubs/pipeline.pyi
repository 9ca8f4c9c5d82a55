from typing import Any

from .base import BaseEstimator

class Pipeline(BaseEstimator):
    steps: list[tuple[str, Any]]
    named_steps: Any
    def __init__(self, steps: list[tuple[str, Any]], **options: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def make_pipeline(*steps: Any, **options: Any) -> Pipeline: ...
