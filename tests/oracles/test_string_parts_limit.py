"""Strings that would need more parts than any number of users can fill."""

import pytest

from sklearn_ldp import StringOracle


def test_strings_that_need_too_many_parts_are_refused():
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    oracle = StringOracle(1.0, alphabet=letters, max_length=200, random_state=0)
    with pytest.raises(
        ValueError, match="max_length=200 over an alphabet of 300 letters.* more than 24 parts"
    ):
        oracle.fit([letters[:3]] * 50)


def test_the_limit_is_reached_before_anything_is_refused():
    """52 letters have 24 parts and the held-out one; one letter more would need another part."""
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    protocol = StringOracle(1.0, alphabet=letters, max_length=52).protocol()
    assert len(protocol.mechanism.shares) == 24 + 1
    with pytest.raises(ValueError, match="more than 24 parts"):
        StringOracle(1.0, alphabet=letters, max_length=53).protocol()
