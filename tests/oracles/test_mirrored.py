"""Channels for prefixes: the folded loss, the epsilon, the variance and the work of the search."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from estimators import slow_but

from sklearn_ldp._core.numerics import mirrored, strategies
from sklearn_ldp.oracles._prefix_channels import PREFIX_SIZES, prefix_integers

PROBABILITY_UNIT = 2**64


def prefix_gram(d):
    prefixes = np.tri(d) - np.tri(d).mean(axis=1, keepdims=True)
    return prefixes.T @ prefixes


def variance(channel, gram):
    return strategies.channel_loss(channel, gram)[0] - np.trace(gram)


@pytest.mark.parametrize("d", [6, 7])
def test_the_folded_loss_is_the_loss_of_the_channel(d):
    """Also its gradient. The negative control is a gram matrix without the symmetry."""
    channel = mirrored.folded(np.random.default_rng(0).uniform(1, 2, size=(8, d)))
    gram = prefix_gram(d) + np.eye(d)
    loss, gradient = mirrored.MirroredObjective(gram)(channel)
    whole = mirrored.unfolded(channel, d)
    np.testing.assert_allclose(whole.sum(axis=0), 1)
    np.testing.assert_array_equal(whole[8:], whole[:8, ::-1])
    expected, expected_gradient = strategies.channel_loss(whole, gram)
    assert loss == pytest.approx(expected, rel=1e-10)
    columns = expected_gradient[:, : (d + 1) // 2]
    np.testing.assert_allclose(gradient, columns, atol=1e-8 * np.abs(columns).max())
    skewed = gram + np.diag(np.arange(d))
    wrong, _ = mirrored.MirroredObjective(skewed)(channel)
    assert wrong != pytest.approx(strategies.channel_loss(whole, skewed)[0], rel=1e-3)


def test_a_mirror_image_loses_nothing():
    """The loss is convex in the information matrix, so the mean of two mirror images is as good."""
    rows = np.random.default_rng(1).uniform(1, 2, size=(30, 9))
    rows /= rows.sum(axis=0)
    gram = prefix_gram(9)
    both = mirrored.unfolded(mirrored.folded(rows), 9)
    assert variance(both, gram) < variance(rows, gram)


def test_resized_columns_keep_the_bounds_of_each_row():
    channel = strategies.square_wave(32, 1.0)
    small = mirrored.resized(channel, 21)
    assert small.shape == (len(channel), 21)
    np.testing.assert_allclose(small.sum(axis=0), 1)
    assert (small.max(axis=1) <= channel.max(axis=1) + 1e-15).all()
    assert (small.min(axis=1) >= channel.min(axis=1) - 1e-15).all()


@pytest.mark.parametrize(
    ("d", "epsilon"),
    slow_but(
        [(16, 0.3), (17, 5.0)],
        [(16, 0.3), (17, 5.0), *product((16, 21, 130), (0.05, 0.9, 4.5, 30.0))],
    ),
)
def test_epsilon_is_exact(d, epsilon):
    """By enumeration. A mirror image of the whole channel is the channel with permuted rows."""
    integers = prefix_integers(d, epsilon, epsilon)
    assert all(sum(column) == PROBABILITY_UNIT for column in integers.T.tolist())
    worst = max(Fraction(max(row), min(row)) for row in integers.tolist())
    bound = Fraction(np.exp(epsilon))
    assert worst <= bound * (1 + Fraction(1, 10**15))
    if epsilon < 30:
        assert worst >= bound * (1 - Fraction(1, 10**9))  # it wastes nothing


@pytest.mark.parametrize(
    ("d", "epsilon"),
    [
        (17, 0.3),
        *(
            pytest.param(d, epsilon, marks=pytest.mark.slow)
            for d, epsilon in (*product((24, 60, 128), (0.3, 0.6, 1.3, 2.5, 5.0, 8.0)), (250, 2.5))
        ),
    ],
)
def test_the_variance_is_no_larger_than_after_the_general_search(d, epsilon):
    """Within 0.5 %. The negative control is the square wave at a smaller epsilon."""
    gram = prefix_gram(d)
    general = variance(strategies.optimised_channel(gram, epsilon), gram)
    channel = prefix_integers(d, epsilon, epsilon) / 2.0**64
    assert variance(channel, gram) <= 1.005 * general
    wave = strategies.square_wave(d, 0.9 * epsilon)
    assert variance(wave, gram) > 1.005 * general


def test_the_search_for_many_bins_has_few_steps(monkeypatch):
    """A step for 250 bins needs about 5 ms. The general search has over 1,000 steps."""
    calls = []
    objective = mirrored.MirroredObjective.__call__

    def counted(self, channel):
        calls.append(channel.shape)
        return objective(self, channel)

    monkeypatch.setattr(mirrored.MirroredObjective, "__call__", counted)
    prefix_integers(140, 1.3, 1.3)
    assert len(calls) < 200
    assert {columns for _, columns in calls} == {70}


def test_sizes_with_channels():
    assert min(PREFIX_SIZES) == 16
    assert max(PREFIX_SIZES) == 256
    channel = prefix_integers(17, 5.1, 5.1)
    np.testing.assert_array_equal(prefix_integers(17, 5.1, 5.1), channel)  # also on the server


@pytest.mark.parametrize("is_long", [False, True])
def test_a_long_search_shows_its_progress(is_long, monkeypatch, capsys):
    monkeypatch.setattr(strategies, "_LONG", 2 if is_long else 128)
    strategies.optimised_channel(prefix_gram(4), 1.0, n_steps=4)
    shown = capsys.readouterr().err
    assert ("a channel for 4 categories: start 1 of 5" in shown) == is_long
