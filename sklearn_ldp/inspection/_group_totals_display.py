"""A display of the totals of groups: raw, under a common prior, and under priors of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._released import refuse_fitted_to_set
from ._style import COLORS, RING, merged, name_ticks, new_axes


class GroupTotalsDisplay:
    """Totals of groups in the raw estimate, under a common prior, and in the result.

    Use :meth:`from_estimator` to create a display.

    Parameters
    ----------
    groups : array-like of shape (n_groups,)
        The names of the groups, from top to bottom.
    raw : array-like of shape (n_groups,)
        Totals of the raw estimate.
    common : array-like of shape (n_groups,)
        Totals under the prior that all categories have in common.
    totals : array-like of shape (n_groups,)
        Totals of the result.
    truth : array-like of shape (n_groups,), default=None
        True totals, if they are known.
    description : str, default=""
        Title of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the totals.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    raw_, common_, totals_ : matplotlib Line2D
        The marks of each estimate.
    truth_ : matplotlib Line2D or None
        The true totals.

    See Also
    --------
    sklearn_ldp.EmpiricalBayes : Learns what it draws.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE, EmpiricalBayes
    >>> from sklearn_ldp.inspection import GroupTotalsDisplay
    >>> shops = np.repeat(["north", "south"], 50)
    >>> counts = np.repeat([3000, 100], 50)
    >>> estimate = OUE(1.0, categories=100, random_state=0).simulate(counts)
    >>> bayes = EmpiricalBayes(groups=shops).fit(estimate)
    >>> display = GroupTotalsDisplay.from_estimator(bayes)
    >>> list(display.groups)
    ['north', 'south']
    """

    ax_: Any
    figure_: Any
    raw_: Any
    common_: Any
    totals_: Any
    truth_: Any

    def __init__(
        self,
        groups: Any,
        raw: Any,
        common: Any,
        totals: Any,
        *,
        truth: Any = None,
        description: str = "",
    ) -> None:
        self.groups = groups
        self.raw = raw
        self.common = common
        self.totals = totals
        self.truth = truth
        self.description = description

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        grouping: int = 0,
        row: int = 0,
        k: int | None = 30,
        truth: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> GroupTotalsDisplay:
        """Draw what a fitted EmpiricalBayes learnt about groups.

        Parameters
        ----------
        estimator : EmpiricalBayes
            Fitted, with `groups`.
        grouping : int, default=0
            Which grouping, if there are several.
        row : int, default=0
            Which estimate, if there are several.
        k : int or None, default=30
            Number of groups: those with the largest totals in the result, the largest at the top.
            None shows all.
        truth : array-like of shape (n_groups,), default=None
            True totals in the order of the groups' names, to be drawn as rings.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        GroupTotalsDisplay
            The display, already drawn.

        Raises
        ------
        ValueError
            If the estimator was fitted without groups, k is not positive, or the truth is of
            another shape.
        """
        check_is_fitted(estimator, "estimate_")
        refuse_fitted_to_set(estimator, "GroupTotalsDisplay")
        if getattr(estimator, "group_totals_", None) is None:
            raise ValueError(
                "GroupTotalsDisplay needs an EmpiricalBayes that was fitted with groups: "
                "EmpiricalBayes(groups=labels).fit(estimate)."
            )
        if k is not None and k < 1:
            raise ValueError(f"Argument k must be None or an integer >= 1, got {k!r}.")
        learnt = estimator.group_totals_[grouping]
        n_groups = len(learnt.names)
        true_totals = None if truth is None else np.asarray(truth, dtype=np.float64)
        if true_totals is not None and true_totals.shape != (n_groups,):
            raise ValueError(
                f"The true totals must have shape ({n_groups},), one for each group in the order "
                f"of {learnt.names[:3]}, got {true_totals.shape}."
            )
        shown = np.argsort(-learnt.totals[row], kind="stable")[:k]
        of_all = (
            "" if len(shown) == n_groups else f"{len(shown)} of {n_groups} groups, the largest; "
        )
        display = cls(
            [learnt.names[i] for i in shown],
            learnt.raw[row, shown],
            learnt.common[row, shown],
            learnt.totals[row, shown],
            truth=None if true_totals is None else true_totals[shown],
            description=f"{of_all}share of the priors of groups: {learnt.share[row]:.0%}",
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> GroupTotalsDisplay:
        """Draw the totals, one row per group.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        GroupTotalsDisplay
            The display itself, with its artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        n = len(self.groups)
        if ax is None:
            ax = new_axes("GroupTotalsDisplay", (6.5, 1.4 + 0.24 * n))
        place = np.arange(1, n + 1)

        def draw(values: Any, label: str, **look: Any) -> Any:
            look = merged({"linestyle": "none", "label": label, **look}, kwargs)
            return ax.plot(np.asarray(values), place, **look)[0]

        self.truth_ = None
        if self.truth is not None:
            self.truth_ = ax.plot(np.asarray(self.truth), place, label="truth", **RING)[0]
        self.raw_ = draw(self.raw, "raw", marker="x", color=COLORS[4])
        self.common_ = draw(self.common, "one prior for all", marker="s", color=COLORS[1])
        self.totals_ = draw(self.totals, "priors of groups", marker="o", color=COLORS[0])
        name_ticks(ax.yaxis, place, self.groups, fontsize="small")
        ax.set_ylim(n + 0.6, 0.4)  # the first group at the top
        ax.yaxis.grid(True, color="0.93", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.set_xlabel("total frequency")
        ax.set_title(self.description, fontsize="small")
        ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self
