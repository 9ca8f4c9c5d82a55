"""The import of pandas, which is an extra."""

from __future__ import annotations

from typing import Any


def import_pandas(name: str) -> Any:
    """Return the module pandas.

    Parameters
    ----------
    name : str
        What needs it, for the error.

    Returns
    -------
    module
        It is imported when it is asked for.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"{name} needs pandas: pip install 'sklearn_ldp[data]'.") from error
    return pd
