"""The public interface changes on purpose only: `make api` writes it to tests/data/api.txt."""

import api
import pytest

import sklearn_ldp.metrics as room

MEANT = "If this is meant: make api, one sentence in CHANGELOG.md, and doc/releasing.md on removals"


def test_the_public_interface_is_the_one_that_was_agreed_on():
    changes = api.difference(api.PATH.read_text(encoding="utf-8").splitlines(), api.lines())
    assert not changes, "\n".join([*changes, MEANT])


def renamed(monkeypatch):
    monkeypatch.setattr(room, "__all__", [n for n in room.__all__ if n != "frequency_mse"])


def other_default(monkeypatch):
    def frequency_mse(estimate, truth, *, sample_weight=None):
        return 0.0

    monkeypatch.setattr(room, "frequency_mse", frequency_mse)


def new_name(monkeypatch):
    monkeypatch.setattr(room, "__all__", [*room.__all__, "np"])
    monkeypatch.setattr(room, "np", 3, raising=False)


@pytest.mark.parametrize("change", [renamed, other_default, new_name])
def test_a_change_is_seen(change, monkeypatch):
    """Negative control: a name that goes, another signature, and a new name."""
    before = api.lines([room.__name__])
    change(monkeypatch)
    changes = api.difference(before, api.lines([room.__name__]))
    assert len(changes) == 1 + (change is other_default)
