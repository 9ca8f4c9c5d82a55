"""Classical designs of randomized-response surveys, and the oracle for their responses.

In these designs, respondents randomize their response by dice, cards or an unrelated question, so
the interviewer does not learn the true answer.
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

from .._core.common.pandas import import_pandas
from .._core.common.random import RandomState
from .._core.common.tags import Tagged
from .._core.common.typing import DataFrame
from .._core.domains import Categories
from .._core.domains.values import as_vector, is_missing
from .._core.mechanisms.coins import PROBABILITY_UNIT
from .._core.mechanisms.matrix import MatrixChannel, integer_channel
from .._core.statistics import check_level
from ..oracles import MatrixOracle, SubsetSelection

_RESOLUTION = 64 * math.log(2)  # the epsilon of a probability of 2**-64, which replaces 0


@dataclass(frozen=True, eq=False)
class ResponseDesign(Tagged, tag="response-design"):
    """A design of a randomized-response survey: the probability of each response to each answer.

    The answer is the truth, which only the respondent knows. The response, or output, is the value
    that the interviewer records. Create a design by its name, such as
    ``ResponseDesign.crosswise(0.25)``, or from a matrix: ``ResponseDesign.custom(matrix)``. In the
    data, responses are integers: 0 stands for "no" (or "different"), and 1 for "yes" (or "same").

    Parameters
    ----------
    channel : array-like of shape (n_outputs, n_answers)
        Each column contains the probabilities of all outputs for one true answer, which sum to 1.
    name : str, default="custom"
        Name of the design.
    wording : str, default=""
        Instruction that the interviewer reads to respondents.

    Attributes
    ----------
    epsilon : float
        Privacy parameter of the design: the maximum over all outputs of the log ratio of the
        output's probabilities for two answers. It is infinite if an output is impossible for an
        answer. The design is then not private, because this output excludes the answer.
    efficiency : float
        The mean variance of the best oracle with the same epsilon, divided by the mean variance of
        this design, if all answers are equally frequent. If it is 0.5, the best oracle needs half
        as many respondents for the same accuracy. It is 0 if the design is not private.

    Raises
    ------
    ValueError
        If a column is not a distribution, if an output has the probability 0 for all answers, or if
        two mixtures of answers have the same distribution of outputs.

    See Also
    --------
    sklearn_ldp.inference.mean_by_answer : Estimates the mean of another variable for each answer.
    sklearn_ldp.learning.LabelDPClassifier : Predicts the answer from features.

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
        is_valid = channel.ndim == 2 and min(channel.shape) >= 2 and np.all(channel >= 0)
        is_valid = is_valid and channel.max(axis=1).min() > 0
        if not is_valid or not np.allclose(channel.sum(axis=0), 1, rtol=0, atol=1e-9):
            raise ValueError(
                f"The matrix of the design {self.name} is not valid. Pass probabilities with at "
                "least 2 rows (outputs) and 2 columns (answers), such that each column sums to 1 "
                f"and no row contains only zeros, got\n{channel}"
            )
        if np.linalg.matrix_rank(channel, tol=1e-9) < channel.shape[1]:
            raise ValueError(
                f"The design {self.name} does not distinguish all answers, because two different "
                "distributions of the answers have the same distribution of outputs (for example "
                "if p = 1/2 in Warner's design). Use other probabilities."
            )
        channel.flags.writeable = False
        object.__setattr__(self, "channel", channel)

    __check_state__ = __post_init__

    @property
    def epsilon(self) -> float:
        """The maximum log ratio of two probabilities in one row of `channel`, which may be inf."""
        minima = self.channel.min(axis=1)
        maxima = self.channel.max(axis=1)
        return float(np.log(maxima / minima).max()) if minima.all() else math.inf

    @property
    def efficiency(self) -> float:
        """The best oracle with the same epsilon needs `efficiency` times as many respondents.

        The number is from 0 to 1. It is 0 if the design is not private.
        """
        if math.isinf(self.epsilon):
            return 0.0
        d = self.channel.shape[1]
        uniform = np.full(d, 1 / d)
        best = SubsetSelection(self.epsilon, categories=d).channel()
        own = MatrixChannel(self.integers)
        return float(best.noise(1).variance(uniform).mean() / own.noise(1).variance(uniform).mean())

    @property
    def integers(self) -> np.ndarray:
        """The probabilities of `channel`, multiplied by 2**64 and rounded to integers.

        :class:`~sklearn_ldp.MatrixOracle` uses the same representation. If the design is not
        private, probabilities of 0 become at least 1.
        """
        if math.isfinite(self.epsilon):
            return integer_channel(self.channel, self.epsilon)
        columns = [
            [max(int(x * PROBABILITY_UNIT), 1) for x in column]
            for column in self.channel.T.tolist()
        ]
        for column in columns:
            column[column.index(max(column))] += PROBABILITY_UNIT - sum(column)
        return np.array(columns, dtype=np.uint64).T

    def oracle(self, categories: Categories = ("no", "yes"), **parameters: Any) -> MatrixOracle:
        """Return the oracle that estimates the frequencies of the answers from responses.

        Parameters
        ----------
        categories : int or array-like of shape (n_answers,), default=("no", "yes")
            The true answers, in the order of the columns of `channel`.
        **parameters : dict
            Other parameters of :class:`~sklearn_ldp.MatrixOracle`, such as ``input="values"`` for a
            simulation.

        Returns
        -------
        MatrixOracle with ``input="reports"``
            All functions for oracles accept it. It omits missing responses with a warning. The
            summaries and report pages of its estimates refer to the population, of which the
            respondents are a sample.
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
        """Estimate the answers under the assumption that some respondents broke the rules.

        The responses do not show whether respondents follow the rules of the design. This method
        assumes that a proportion of the respondents gives a certain response instead, such as a
        self-protective "no". It also assumes that their true answers have the same distribution as
        the answers of the other respondents. Under these assumptions, the frequencies of the
        answers are estimated from the respondents who follow the rules.

        Parameters
        ----------
        estimate : FrequencyEstimate
            A raw estimate from the oracle of this design, with one row.
        cheaters : array-like of shape (n_shares,), default=None
            Assumed proportions of respondents who break the rules. If None, use 0, 0.01, .., 0.1.
        level : float, default=0.95
            Confidence level of each single interval. The intervals are not simultaneous. They refer
            to the population.
        output : int or "random", default=None
            The response of the respondents who break the rules: the index of an output, or
            "random" if they give all outputs with the same probability. If None, it is the output
            that is most likely for the first answer, "no", compared with the other answers. In a
            crosswise model with `p` below 1/2 this is output 1, "same".

        Returns
        -------
        pandas.DataFrame
            One row per proportion and answer, with the columns cheaters, category, estimate, low
            and high. The ends low and high are clipped to 0 and 1. The three numbers are NaN if no
            frequency from 0 to 1 fits the responses, because so many respondents cannot have broken
            the rules.

        Raises
        ------
        ValueError
            If the estimate is not raw, has several rows or is from another design; if a proportion
            is not in [0, 1); or if `output` is not an output of the design.
        """
        check_level(level)
        pd = import_pandas("ResponseDesign.sensitivity")
        mechanism = MatrixChannel(self.integers)
        if estimate.shape != (1, mechanism.n_categories) or not estimate.is_raw:
            raise ValueError(
                "ResponseDesign.sensitivity needs a raw estimate with one row. Pass the "
                f"`estimate_` of this design's oracle instead of {estimate!s}".partition("\n")[0]
            )
        if estimate.oracle is not None:  # otherwise the design of the estimate is unknown
            integers = getattr(estimate.oracle.protocol().mechanism, "integers", None)
            if integers is None or not np.array_equal(integers, mechanism.integers):
                other = getattr(estimate.oracle, "design", estimate.oracle)
                raise ValueError(
                    f"ResponseDesign.sensitivity of the design {self.name} got an estimate from "
                    f"another design, {getattr(other, 'name', other)}. Call the method sensitivity "
                    "of the design from which the estimate comes."
                )
        outputs = self._outputs_of_cheaters(output)
        raw = estimate.values[0]
        proportions = np.arange(11) / 100 if cheaters is None else cheaters
        low, high = estimate.confidence_interval(level, of="population")
        tables = []
        for proportion in np.asarray(proportions, dtype=float).tolist():
            if not 0 <= proportion < 1:
                raise ValueError(
                    f"ResponseDesign.sensitivity got {proportion!r} as a proportion of cheaters. "
                    "Pass cheaters= as numbers that are at least 0 and less than 1."
                )
            part = proportion * (mechanism.decoding @ outputs)
            others, start, end = ((x - part) / (1 - proportion) for x in (raw, low[0], high[0]))
            fits = (end >= 0) & (start <= 1)
            columns = {
                "cheaters": proportion,
                "category": estimate.categories,
                "estimate": np.where(fits, others, np.nan),
                "low": np.where(fits, np.clip(start, 0, 1), np.nan),
                "high": np.where(fits, np.clip(end, 0, 1), np.nan),
            }
            tables.append(pd.DataFrame(columns))
        return pd.concat(tables, ignore_index=True)

    def _outputs_of_cheaters(self, output: int | str | None) -> np.ndarray:
        """Return the probability of each output for respondents who break the rules.

        output: the argument of `sensitivity`. Returns an array of shape (n_outputs,).
        """
        n = len(self.channel)
        if output is None:
            with np.errstate(divide="ignore"):
                output = int(np.argmax(self.channel[:, 0] / self.channel[:, 1:].mean(axis=1)))
        if isinstance(output, str) and output == "random":
            return np.full(n, 1 / n)
        if not isinstance(output, Integral) or not 0 <= output < n:
            raise ValueError(
                f'Argument output must be "random" or the index of an output, got {output!r}. '
                f"Pass an integer from 0 to {n - 1}."
            )
        return np.eye(n)[int(output)]

    # -- by name --------------------------------------------------------------------------------
    @classmethod
    def _binary(cls, no: float, yes: float, name: str, wording: str) -> Self:
        """Return a design with two answers and two outputs.

        no, yes: the probability of the output "yes" for the true answer "no" and for "yes".
        """
        return cls([[1 - no, 1 - yes], [no, yes]], name, wording)

    @classmethod
    def warner(cls, p: float) -> Self:
        """Return Warner's design: a card shows one of two opposite statements.

        With probability p, the card shows "I have the trait", otherwise "I do not have the trait".
        The respondent states whether the card is true.

        Parameters
        ----------
        p : float
            Probability of the statement that the respondent has the trait. It must not be 1/2.

        Returns
        -------
        ResponseDesign
            The design of Warner, JASA 60, 1965. The estimate is (proportion of yes + p - 1) / (2 p
            - 1).
        """
        return cls._binary(1 - p, p, f"warner(p={p:g})", _WARNER)

    @classmethod
    def forced(cls, p_truth: float, p_yes: float | Sequence[float]) -> Self:
        """Return the forced-response design: a die asks for the truth or for a certain response.

        Parameters
        ----------
        p_truth : float
            Probability that the die asks for the truth.
        p_yes : float, or sequence of shape (n_answers,)
            Probability that the die asks for "yes". It asks for "no" with the remaining
            probability. If there are more than two answers, a sequence with the probability that
            the die asks for each answer.

        Returns
        -------
        ResponseDesign
            The design of Boruch, American Sociologist 6, 1971. The estimate is (proportion of yes -
            p_yes) / p_truth.
        """
        probabilities: Any = np.asarray(p_yes, dtype=float)
        forced = probabilities
        if probabilities.ndim == 0:
            forced = np.array([1 - p_truth - probabilities, probabilities])
        channel = p_truth * np.eye(len(forced)) + forced[:, None]
        name = f"forced(p_truth={p_truth:g}, p_yes={probabilities.tolist()})"
        return cls(channel, name, _FORCED)

    @classmethod
    def crosswise(cls, p: float) -> Self:
        """Return the crosswise model: respondents state whether two answers are the same.

        One question is sensitive and the other is harmless, such as a question about a birthday.
        The response is "same" if the answers to both questions are the same, otherwise "different".

        Parameters
        ----------
        p : float
            Proportion of "yes" answers to the harmless question. These answers must be independent
            of the answers to the sensitive question. It must not be 1/2.

        Returns
        -------
        ResponseDesign
            The design of Yu, Tian and Tang, Metrika 67, 2008. The estimate is (proportion of same +
            p - 1) / (2 p - 1).
        """
        text = "Are your answers to both questions the same, or are they different?"
        return cls._binary(1 - p, p, f"crosswise(p={p:g})", text)

    @classmethod
    def triangular(cls, p: float) -> Self:
        """Return the triangular model: respondents state whether they have one of two traits.

        One trait is sensitive and the other is harmless. The response is "at least one" or
        "neither". The design is not private, because "neither" reveals that the respondent does not
        have the sensitive trait.

        Parameters
        ----------
        p : float
            Proportion of people with the harmless trait, which must be independent of the sensitive
            trait.

        Returns
        -------
        ResponseDesign
            The design of Yu, Tian and Tang, Metrika 67, 2008. The estimate is (proportion of "at
            least one" - p) / (1 - p).
        """
        text = "Is neither of the two sentences true of you (no), or at least one (yes)?"
        return cls._binary(p, 1, f"triangular(p={p:g})", text)

    @classmethod
    def unrelated(cls, p: float, prevalence: float) -> Self:
        """Return the unrelated-question design: a card shows a sensitive or a harmless question.

        Parameters
        ----------
        p : float
            Probability that the card shows the sensitive question.
        prevalence : float
            Known proportion of people whose answer to the harmless question is "yes".

        Returns
        -------
        ResponseDesign
            The design of Greenberg et al., JASA 64, 1969. The estimate is (proportion of yes -
            (1 - p) prevalence) / p.
        """
        other = (1 - p) * prevalence
        text = "Draw a card, and answer the question on it with yes or no."
        return cls._binary(other, p + other, f"unrelated(p={p:g}, prevalence={prevalence:g})", text)

    @classmethod
    def kuk(cls, p1: float, p2: float, cards: int = 1) -> Self:
        """Return Kuk's design: the respondent draws cards and reports the number of red cards.

        Respondents with the trait draw from the first deck, and all others from the second deck.
        With one card and ``p2 = 1 - p1``, this is the design that Blair, Imai and Zhou call
        disguised response.

        Parameters
        ----------
        p1, p2 : float
            Proportion of red cards in the first and in the second deck.
        cards : int, default=1
            Number of cards that a respondent draws. Each card is put back before the next draw.

        Returns
        -------
        ResponseDesign
            The design of Kuk, Biometrika 77, 1990. With one card, the estimate is Kuk's estimate,
            (proportion of red - p2) / (p1 - p2). With several cards, it is the least-squares
            estimate, which uses the whole distribution of the number of red cards. Its variance is
            smaller than the variance of Kuk's estimate if both answers are equally frequent.
        """
        red = np.arange(cards + 1)[:, None]
        ways = np.array([[math.comb(cards, k)] for k in range(cards + 1)])
        chances = [p2, p1]
        channel = ways * np.power(chances, red) * np.power(1 - np.array(chances), cards - red)
        text = f"Draw {cards} card(s) from the deck of your answer, and say how many are red."
        return cls(channel, f"kuk(p1={p1:g}, p2={p2:g}, cards={cards})", text)

    @classmethod
    def mangat(cls, p: float) -> Self:
        """Return Mangat's design: respondents with the trait answer "yes".

        All other respondents draw a card as in Warner's design. The design is not private, because
        the response "no" reveals that the respondent does not have the trait.

        Parameters
        ----------
        p : float
            Probability that the card shows the statement "I have the trait".

        Returns
        -------
        ResponseDesign
            The design of Mangat, JRSS B 56, 1994. The estimate is (proportion of yes + p - 1) / p.
        """
        text = 'If you did, say yes. If not, draw a card: is "I did" or "I did not" on it true?'
        return cls._binary(1 - p, 1, f"mangat(p={p:g})", text)

    @classmethod
    def custom(cls, matrix: ArrayLike, wording: str = "") -> Self:
        """Return a design that is defined by a matrix of probabilities.

        Parameters
        ----------
        matrix : array-like of shape (n_outputs, n_answers)
            Each column contains the probabilities of all outputs for one true answer, which sum to
            1.
        wording : str, default=""
            Instruction that the interviewer reads to respondents.

        Returns
        -------
        ResponseDesign
            The design.
        """
        return cls(matrix, "custom", wording)


_WARNER = 'Draw a card, and do not show it. Is the sentence on it true: "I did" or "I did not"?'
_FORCED = "Roll the die, and do not show it. It tells you to say the truth, or what to say instead."


class DesignOracle(MatrixOracle, tag="design-oracle"):
    """The oracle of a :class:`ResponseDesign`. Its reports are the responses of a survey.

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
        """The epsilon of the design.

        If the design is not private, epsilon is computed as if probabilities of 0 were 2**-64.
        """
        return min(self.design.epsilon, _RESOLUTION)

    def _make_mechanism(self, domain):
        if domain.size != self.design.channel.shape[1]:
            raise ValueError(
                f"The design {self.design.name} has {self.design.channel.shape[1]} answers, but "
                f"there are {domain.size} categories. Use design.oracle(categories=[..]) with a "
                "category for each answer."
            )
        return MatrixChannel(self.design.integers)

    def privatize(self, X, *, parts=None):
        self._refuse_open()
        return super().privatize(X, parts=parts)

    def _refuse_open(self) -> None:
        if math.isinf(self.design.epsilon):
            raise ValueError(
                f"The oracle cannot randomize answers by the design {self.design.name}, because "
                "this design is not private: one of its outputs excludes an answer. Pass responses "
                'with input="reports", or use a design with a finite epsilon.'
            )

    def _rows_to_add(self, X, sample_weight):
        if self.input == "values":
            self._refuse_open()
        elif not hasattr(X, "configuration"):
            rows = as_vector(X)
            if any(isinstance(row, str) for row in rows.tolist()):
                raise ValueError(
                    f"Responses to the design {self.design.name} must be the numbers of its "
                    f"outputs, from 0 to {len(self.design.channel) - 1}, got text. Replace each "
                    "response by the number of its row in the design's channel; with two rows, 0 "
                    'is "no" or "different" and 1 is "yes" or "same".'
                )
            is_response = np.array([not is_missing(row) for row in rows.tolist()])
            if n_missing := len(rows) - int(is_response.sum()):
                warnings.warn(
                    f"{n_missing:,} of {len(rows):,} responses are missing and are omitted. The "
                    "estimate refers only to the respondents with a response.",
                    stacklevel=3,
                )
                X = np.array(rows[is_response].tolist(), dtype=float)
                X = X.astype(np.int64) if np.all(np.round(X) == X) else X
                if sample_weight is not None:
                    sample_weight = np.asarray(sample_weight)[is_response]
        return super()._rows_to_add(X, sample_weight)

    def _estimate_of(self, state):
        estimate = super()._estimate_of(state)
        if math.isfinite(self.design.epsilon):
            return estimate
        text = f"The design {self.design.name} is not private: some responses reveal the answer."
        return replace(estimate, caveats=(*estimate.caveats, text))
