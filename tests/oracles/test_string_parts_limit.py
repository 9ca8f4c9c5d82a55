"""Strings that would need more parts than any number of users can fill."""

import pytest

from sklearn_ldp import StringOracle


def test_strings_that_need_too_many_parts_are_refused():
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    oracle = StringOracle(1.0, alphabet=letters, max_length=200, random_state=0)
    with pytest.raises(ValueError, match="needs more than 24 parts .* of up to 200 of 300 letters"):
        oracle.fit([letters[:3]] * 50)
