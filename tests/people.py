"""A small table of people with three columns, and surveys of them."""

import numpy as np
import pandas as pd

from sklearn_ldp import ColumnOracle


def domains_of(n_states):
    """The domains of the columns."""
    return {"sex": ["F", "M"], "age": 5, "state": [f"state {i}" for i in range(n_states)]}


def people(n=3000, seed=0, *, n_states):
    """A data frame of people, of whom most live in the first states."""
    rng = np.random.default_rng(seed)
    weights = np.arange(n_states, 0, -1.0)
    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n, p=[0.3, 0.7]),
            "age": rng.binomial(4, 0.4, n),
            "state": rng.choice(domains_of(n_states)["state"], n, p=weights / weights.sum()),
        }
    )


def same(one, other):
    """Whether two sets hold the same estimates of the same parts, with the same noise."""
    return one.names == other.names and all(
        np.array_equal(part.values, other[name].values) and part.noise == other[name].noise
        for name, part in one.items()
    )


def survey(*, domains, **parameters):
    """An oracle of the columns, seeded."""
    return ColumnOracle(**{"epsilon": 2.0, "domains": domains, "random_state": 0, **parameters})
