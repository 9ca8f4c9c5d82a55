"""Seeds: the conversion of `random_state` parameters to random generators."""

from __future__ import annotations

from numbers import Integral

import numpy as np

RandomState = int | np.random.RandomState | np.random.Generator | None


def root_entropy(random_state: RandomState) -> list[int]:
    """Return a list of integers that seeds other generators.

    It is made from an integer seed, or drawn from a generator, whose state then changes.
    """
    if isinstance(random_state, Integral):
        return [int(random_state)]
    if isinstance(random_state, np.random.Generator):
        return [int(word) for word in random_state.integers(1 << 32, size=4)]
    if isinstance(random_state, np.random.RandomState):
        return [int(word) for word in random_state.randint(1 << 32, size=4, dtype=np.uint64)]
    raise TypeError(
        "random_state must be None, an int, a numpy.random.RandomState or a "
        f"numpy.random.Generator, got {type(random_state).__name__}. Pass for example "
        "random_state=0."
    )


def check_repeats(n_repeats: object, name: str) -> int:
    """Return `n_repeats`, a number of simulated collections, as an int.

    Raise ValueError unless it is an integer >= 1.
    """
    if not isinstance(n_repeats, Integral) or n_repeats < 1:
        raise ValueError(
            f"{name} needs n_repeats= to be an integer >= 1, got {n_repeats!r}. Pass the number "
            "of simulated collections, such as 30."
        )
    return int(n_repeats)


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a random generator for simulations.

    Users' reports need a secure source instead. If `random_state` is None, the generator has a
    random seed.
    """
    if random_state is None:
        return np.random.default_rng()
    return np.random.default_rng(root_entropy(random_state))
