"""Designs of randomised-response surveys by their names, and the oracle that reads answers to them.

The interviewer never learns the answer: dice, cards or an unrelated question decide what is said.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._core.domains import Categories
from .._core.domains.values import as_vector, is_missing
from .._core.mechanisms.coins import TWO_64
from .._core.mechanisms.matrix import MatrixChannel, integer_channel
from .._core.statements import check_level
from .._core.support.pandas import import_pandas
from .._core.support.random import RandomState
from .._core.support.tags import Tagged
from .._core.support.typing import DataFrame
from ..oracles import MatrixOracle, SubsetSelection

_RESOLUTION = 64 * math.log(2)  # the epsilon of a probability of 2**-64, which stands for none


@dataclass(frozen=True, eq=False)
class ResponseDesign(Tagged, tag="response-design"):
    """A randomised-response design: how likely each output is, given the true answer.

    Make one by its name, such as ``ResponseDesign.crosswise(0.25)``, or by its matrix,
    ``ResponseDesign.custom(matrix)``. Answers to it are numbers of outputs: 0 is "no" (or
    "different"), and 1 is "yes" (or "same").

    Parameters
    ----------
    channel : array-like of shape (n_outputs, n_answers)
        Probability of each output given each true answer; columns sum to 1.
    name : str, default="custom"
        What the design is called.
    wording : str, default=""
        What the interviewer says.

    Attributes
    ----------
    epsilon : float
        How much an output tells of an answer at most: the largest logarithm of a ratio of two
        probabilities in a row; infinite where an output excludes an answer, so that the design is
        not private.
    efficiency : float
        The mean variance of the best oracle of this epsilon, divided by that of this design, under
        uniform answers: the share of its respondents that the best design would need. 0 where the
        design is not private.

    Raises
    ------
    ValueError
        If the columns are no distributions, or the outputs do not tell all answers apart.

    See Also
    --------
    sklearn_ldp.inference.mean_by_answer : An outcome by the answer.

    References
    ----------
    .. [1] G. Blair, K. Imai, Y.-Y. Zhou, "Design and analysis of the randomized response
       technique", JASA 110, 2015, :doi:`10.1080/01621459.2015.1050028`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp.surveys import ResponseDesign
    >>> design = ResponseDesign.crosswise(0.25)
    >>> estimate = design.oracle().fit_transform(np.repeat([0, 1], [400, 600]))
    >>> round(estimate["yes"], 5)
    0.3
    >>> low, high = estimate.confidence_interval(0.95, of="population")
    >>> low.round(2)[0, 1], high.round(2)[0, 1]
    (np.float64(0.24), np.float64(0.36))
    """

    channel: Any
    name: str = "custom"
    wording: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        channel = np.array(self.channel, dtype=float)
        is_law = channel.ndim == 2 and min(channel.shape) >= 2 and np.all(channel >= 0)
        is_law = is_law and channel.max(axis=1).min() > 0
        if not is_law or not np.allclose(channel.sum(axis=0), 1, rtol=0, atol=1e-9):
            raise ValueError(
                f"The design {self.name} needs probabilities from 0 to 1, a row for each output, "
                f"whose columns are distributions, and no output that never occurs, got\n{channel}"
            )
        if np.linalg.matrix_rank(channel, tol=1e-9) < channel.shape[1]:
            raise ValueError(
                f"The design {self.name} does not tell all answers apart: for some of them, all "
                "outputs are equally likely, as with p = 1/2 in Warner's. Take other probabilities."
            )
        channel.flags.writeable = False
        object.__setattr__(self, "channel", channel)

    __check_state__ = __post_init__

    @property
    def epsilon(self) -> float:
        """How much an output tells of an answer at most; infinite if the design is not private."""
        least, most = self.channel.min(axis=1), self.channel.max(axis=1)
        return float(np.log(most / least).max()) if least.all() else math.inf

    @property
    def efficiency(self) -> float:
        """The share of its respondents that the best design of its epsilon would need."""
        if math.isinf(self.epsilon):
            return 0.0
        d = self.channel.shape[1]
        even, best = np.full(d, 1 / d), SubsetSelection(self.epsilon, categories=d).channel()
        own = MatrixChannel(self.integers)
        return float(best.noise(1).variance(even).mean() / own.noise(1).variance(even).mean())

    @property
    def integers(self) -> np.ndarray:
        """The channel in integers over 2**64, as :class:`~sklearn_ldp.MatrixOracle` takes them."""
        if math.isfinite(self.epsilon):
            return integer_channel(self.channel, self.epsilon)
        columns = [[max(int(x * TWO_64), 1) for x in column] for column in self.channel.T.tolist()]
        for column in columns:
            column[column.index(max(column))] += TWO_64 - sum(column)
        return np.array(columns, dtype=np.uint64).T

    def oracle(self, categories: Categories = ("no", "yes"), **parameters: Any) -> MatrixOracle:
        """Return the oracle that reads answers to this design.

        Parameters
        ----------
        categories : int or array-like of shape (n_answers,), default=("no", "yes")
            The true answers, in the order of the channel's columns.
        **parameters : dict
            Other parameters of :class:`~sklearn_ldp.MatrixOracle`, such as ``input="values"`` for a
            simulation.

        Returns
        -------
        MatrixOracle with ``input="reports"``
            It estimates, plans, tests and writes files like every oracle. Missing answers are left
            out, with a warning. Reports and summaries of its estimates are about the population.
        """
        listed = list(categories) if isinstance(categories, tuple) else categories
        return DesignOracle(self, categories=listed, **{"input": "reports", **parameters})

    def sensitivity(
        self,
        estimate: Any,
        cheaters: ArrayLike | None = None,
        level: float = 0.95,
        *,
        output: int | str | None = None,
    ) -> DataFrame:
        """Tell what an estimate would be if some respondents had not followed the design.

        No design shows whether respondents follow its rules. If a share of them gives one output
        instead (a self-protective no), and they are like the others, then the others' answers have
        the law of the design, and this is their estimate.

        Parameters
        ----------
        estimate : FrequencyEstimate
            A raw estimate by this design's oracle.
        cheaters : array-like of shape (n_shares,), default=None
            The shares of respondents that are assumed; None takes 0, 0.01, .., 0.1.
        level : float, default=0.95
            Level of the intervals, each for itself; they are about the population.
        output : int or "random", default=None
            What they say: the number of an output, or any one with equal chances. None is the
            output that speaks most for the first answer, "no": in a crosswise model whose `p` is
            below 1/2 that is 1, "same".

        Returns
        -------
        pandas.DataFrame
            One row per share and answer, with the columns cheaters, category, estimate, low and
            high. Ends are clipped to 0 and 1; NaN where no number in between fits the answers, as
            there cannot be so many cheaters.

        Raises
        ------
        ValueError
            If the estimate is not raw or of this design, or a share or the output is none.
        """
        check_level(level)
        pd, rows = import_pandas("ResponseDesign.sensitivity"), []
        mechanism = MatrixChannel(self.integers)
        if estimate.shape != (1, mechanism.n_categories) or not estimate.is_raw:
            raise ValueError(
                "ResponseDesign.sensitivity needs one raw estimate by the oracle of this design, "
                f"got {estimate!s}".partition("\n")[0]
            )
        if estimate.oracle is not None:  # otherwise nobody knows what made it
            own = getattr(estimate.oracle.protocol().mechanism, "integers", None)
            if own is None or not np.array_equal(own, mechanism.integers):
                made = getattr(estimate.oracle, "design", estimate.oracle)
                raise ValueError(
                    f"ResponseDesign.sensitivity of {self.name} got an estimate of another design, "
                    f"{getattr(made, 'name', made)}: call that of the design that was followed."
                )
        said = self._said_by_cheaters(output)
        raw, shares = estimate.values[0], np.arange(11) / 100 if cheaters is None else cheaters
        low, high = estimate.confidence_interval(level, of="population")
        for share in np.asarray(shares, dtype=float).tolist():
            if not 0 <= share < 1:
                raise ValueError(f"A share of cheaters is from 0 to less than 1, got {share!r}.")
            moved = share * (mechanism.decoding @ said)
            others, least, most = ((x - moved) / (1 - share) for x in (raw, low[0], high[0]))
            fits = (most >= 0) & (least <= 1)
            columns = {"cheaters": share, "category": estimate.categories}
            columns["estimate"] = np.where(fits, others, np.nan)
            for name, end in (("low", least), ("high", most)):
                columns[name] = np.where(fits, np.clip(end, 0, 1), np.nan)
            rows.append(pd.DataFrame(columns))
        return pd.concat(rows, ignore_index=True)

    def _said_by_cheaters(self, output: int | str | None) -> np.ndarray:
        """Return the law of the outputs of those who do not follow the design."""
        n = len(self.channel)
        if output is None:
            with np.errstate(divide="ignore"):
                output = int(np.argmax(self.channel[:, 0] / self.channel[:, 1:].mean(axis=1)))
        if isinstance(output, str) and output == "random":
            return np.full(n, 1 / n)
        if not isinstance(output, Integral) or not 0 <= output < n:
            raise ValueError(
                f'The output must be "random" or the number of an output < {n}, got {output!r}.'
            )
        return np.eye(n)[int(output)]

    # -- by name --------------------------------------------------------------------------------
    @classmethod
    def _of_yes(cls, no: float, yes: float, name: str, wording: str) -> Self:
        """Return a design of two answers and outputs, from the chance of "yes" given each."""
        return cls([[1 - no, 1 - yes], [no, yes]], name, wording)

    @classmethod
    def warner(cls, p: float) -> Self:
        """Mirrored questions: with probability p the card asks for the trait, else for its lack.

        Parameters
        ----------
        p : float
            Probability of the question for the trait, not 1/2.

        Returns
        -------
        ResponseDesign
            Warner, JASA 60, 1965: (share of yes + p - 1) / (2 p - 1).
        """
        return cls._of_yes(1 - p, p, f"warner(p={p:g})", _WARNER)

    @classmethod
    def forced(cls, p_truth: float, p_yes: float | Sequence[float]) -> Self:
        """Forced response: the die says to tell the truth, or what to say instead.

        Parameters
        ----------
        p_truth : float
            Probability of the truth.
        p_yes : float, or sequence of shape (n_answers,)
            Probability of a forced "yes", a forced "no" taking the rest; or of each answer, where
            there are more than two.

        Returns
        -------
        ResponseDesign
            Boruch, American Sociologist 6, 1971: (share of yes - p_yes) / p_truth.
        """
        given: Any = np.asarray(p_yes, dtype=float)
        said = given if given.ndim else np.array([1 - p_truth - given, given])
        channel, shown = p_truth * np.eye(len(said)) + said[:, None], given.tolist()
        return cls(channel, f"forced(p_truth={p_truth:g}, p_yes={shown})", _FORCED)

    @classmethod
    def crosswise(cls, p: float) -> Self:
        """Crosswise model: whether the answers to a harmless question and to this one are the same.

        Parameters
        ----------
        p : float
            Share of "yes" to the harmless question, which is independent; not 1/2.

        Returns
        -------
        ResponseDesign
            Yu, Tian and Tang, Metrika 67, 2008: (share of same + p - 1) / (2 p - 1).
        """
        text = "Are your answers to both questions the same, or are they different?"
        return cls._of_yes(1 - p, p, f"crosswise(p={p:g})", text)

    @classmethod
    def triangular(cls, p: float) -> Self:
        """Triangular model: whether one has at least one of a harmless trait and this one.

        Not private: "neither" says that one has not got the trait.

        Parameters
        ----------
        p : float
            Share of people with the harmless trait, which is independent.

        Returns
        -------
        ResponseDesign
            Yu, Tian and Tang, Metrika 67, 2008: (share of "at least one" - p) / (1 - p).
        """
        text = "Is neither of the two sentences true of you (no), or at least one (yes)?"
        return cls._of_yes(p, 1, f"triangular(p={p:g})", text)

    @classmethod
    def unrelated(cls, p: float, prevalence: float) -> Self:
        """Unrelated question: with probability p the sensitive one, else a harmless one.

        Parameters
        ----------
        p : float
            Probability of the sensitive question.
        prevalence : float
            Known share of "yes" to the harmless one.

        Returns
        -------
        ResponseDesign
            Greenberg et al., JASA 64, 1969: (share of yes - (1 - p) prevalence) / p.
        """
        other = (1 - p) * prevalence
        text = "Draw a card, and answer the question on it with yes or no."
        return cls._of_yes(other, p + other, f"unrelated(p={p:g}, prevalence={prevalence:g})", text)

    @classmethod
    def kuk(cls, p1: float, p2: float, cards: int = 1) -> Self:
        """Kuk's cards: who has the trait draws from the first deck, others from the second.

        With one card and ``p2 = 1 - p1`` it is the disguised response of Blair, Imai and Zhou.

        Parameters
        ----------
        p1, p2 : float
            Share of red cards in the first and in the second deck.
        cards : int, default=1
            Cards that are drawn, each from the whole deck; the number of red ones is reported.

        Returns
        -------
        ResponseDesign
            Kuk, Biometrika 77, 1990. With one card the estimate is his, (share of red - p2) /
            (p1 - p2); with more it is the least squares one, which uses all of the law of the
            number of red cards, and has less variance at even shares.
        """
        red = np.arange(cards + 1)[:, None]
        ways, chances = np.array([[math.comb(cards, k)] for k in range(cards + 1)]), [p2, p1]
        channel = ways * np.power(chances, red) * np.power(1 - np.array(chances), cards - red)
        text = f"Draw {cards} card(s) from the deck of your answer, and say how many are red."
        return cls(channel, f"kuk(p1={p1:g}, p2={p2:g}, cards={cards})", text)

    @classmethod
    def mangat(cls, p: float) -> Self:
        """Mangat's design: who has the trait says yes, and others answer Warner's question.

        Not private: "no" says that one has not got the trait.

        Parameters
        ----------
        p : float
            Probability of the question for the trait.

        Returns
        -------
        ResponseDesign
            Mangat, JRSS B 56, 1994: (share of yes + p - 1) / p.
        """
        text = 'If you did, say yes. If not, draw a card: is "I did" or "I did not" on it true?'
        return cls._of_yes(1 - p, 1, f"mangat(p={p:g})", text)

    @classmethod
    def custom(cls, matrix: ArrayLike, wording: str = "") -> Self:
        """Any other design.

        Parameters
        ----------
        matrix : array-like of shape (n_outputs, n_answers)
            Probability of each output given each true answer; columns sum to 1.
        wording : str, default=""
            What the interviewer says.

        Returns
        -------
        ResponseDesign
            The design.
        """
        return cls(matrix, "custom", wording)


_WARNER = 'Draw a card, and do not show it. Is the sentence on it true: "I did" or "I did not"?'
_FORCED = "Roll the die, and do not show it. It tells you to say the truth, or what to say instead."


class DesignOracle(MatrixOracle, tag="design-oracle"):
    """The oracle of a :class:`ResponseDesign`, whose reports are answers to an interviewer.

    %(parameters)s
    design : ResponseDesign
        The design.

    %(attributes)s
    """

    about = "population"
    _parameter_constraints: dict = {
        **{k: v for k, v in MatrixOracle._parameter_constraints.items() if k != "epsilon"},
        "design": [ResponseDesign],
    }

    def __init__(
        self,
        design: ResponseDesign,
        *,
        categories: Categories = "auto",
        input: str = "reports",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.design = design
        self.categories = categories
        self.input = input
        self.n_shards = n_shards
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """The design's; where it is not private, that of a probability of 2**-64."""
        return min(self.design.epsilon, _RESOLUTION)

    def _make_mechanism(self, domain):
        if domain.size != self.design.channel.shape[1]:
            raise ValueError(
                f"The design {self.design.name} has {self.design.channel.shape[1]} answers, and "
                f"there are {domain.size} categories: design.oracle(categories=[..]) names each."
            )
        return MatrixChannel(self.design.integers)

    def privatize(self, X, *, parts=None):
        self._refuse_open()
        return super().privatize(X, parts=parts)

    def _refuse_open(self) -> None:
        if math.isinf(self.design.epsilon):
            raise ValueError(
                f"The design {self.design.name} is not private: one of its outputs excludes an "
                "answer. Answers are read, and none are made: take a design of a finite epsilon."
            )

    def _rows_to_add(self, X, sample_weight):
        if self.input == "values":
            self._refuse_open()
        elif not hasattr(X, "configuration"):
            rows = as_vector(X)
            if any(isinstance(one, str) for one in rows.tolist()):
                raise ValueError(
                    f"Answers to {self.design.name} are numbers of its outputs, from 0 to "
                    f'{len(self.design.channel) - 1} (0 is "no" or "different", 1 is "yes" or '
                    '"same"), got text: number them as the interviewer reads them out.'
                )
            said = np.array([not is_missing(one) for one in rows.tolist()])
            if n_missing := len(said) - int(said.sum()):
                what = f"{n_missing:,} of {len(said):,} answers are missing, and left out"
                warnings.warn(f"{what}: the estimate is of those who answered.", stacklevel=3)
                X = np.array(rows[said].tolist(), dtype=float)
                X = X.astype(np.int64) if np.all(np.round(X) == X) else X
                sample_weight = None if sample_weight is None else np.asarray(sample_weight)[said]
        return super()._rows_to_add(X, sample_weight)

    def _estimate_of(self, state):
        estimate = super()._estimate_of(state)
        if math.isfinite(self.design.epsilon):
            return estimate
        text = f"The design {self.design.name} is not private: some answers tell on respondents."
        return replace(estimate, caveats=(*estimate.caveats, text))
