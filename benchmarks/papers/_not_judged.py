"""Sentences of the papers with a number or a comparison that the study does not judge, and why."""

from __future__ import annotations

_TIMING = "A time on the authors' machine and of their code; ours is another one."
_DEFINED = "It follows from the definition; a test has it by name: tests/test_papers.py."
_ADVICE = "Advice without a measure of what is poor."
_REPEATED = "The same as a statement that is judged: "

NOT_JUDGED = [
    # paper, section, sentence, reason
    (
        "2020",
        "I",
        "summing up the estimations of all values is far from optimal, especially when the domain "
        "is large",
        _REPEATED + "2020-fig6, methods that sum to 1 against Base.",
    ),
    (
        "2020",
        "I",
        "zero for negative estimations improves individual values; the biases accumulate for "
        "ranges",
        _REPEATED + "2020-fig4 and 2020-fig6, Base-Pos.",
    ),
    (
        "2020",
        "I",
        "no single method outperforms the others for all tasks",
        "The three rows on the best method of a task say so together.",
    ),
    (
        "2020",
        "III-B",
        "the variance of OLH is least at g = e^ε + 1; p = (e^ε − 1)/(e^ε + g − 1)",
        "Proved, and printed with a slip: tests/test_privacy.py enumerates the channel.",
    ),
    (
        "2020",
        "III-C",
        "Subset Selection tends to OLH as d grows; OUE has the variance of OLH",
        "Proved; table 2020-oracles shows it.",
    ),
    (
        "2020",
        "IV-A",
        "Lemma 1: Base-Pos introduces positive bias to all values",
        _DEFINED,
    ),
    (
        "2020",
        "IV-A",
        "Base-Pos is at least as accurate as Base for each individual value",
        "Algebra: a negative estimate is further from any frequency than 0 is.",
    ),
    (
        "2020",
        "IV-A",
        "with alpha = 2 around 2 false positives are expected, and 10 true positives for each",
        "Arithmetic: d times alpha/d; and 20 over 2.",
    ),
    (
        "2020",
        "IV-A",
        "only subset queries: the bias of Post-Pos is smaller",
        "Neither which sets nor how much smaller is said.",
    ),
    (
        "2020",
        "IV-B",
        "Lemmas 2, 3 and 4: biases of methods that sum to 1",
        _DEFINED,
    ),
    (
        "2020",
        "IV-B",
        "Norm-Mul performs well when the distribution is smooth, poorly when it is skewed",
        "A finding of another paper on other data; of skewed data the rows on Norm-Mul tell.",
    ),
    (
        "2020",
        "IV-C, IV-D",
        "CLS is Norm-Sub; MLE-Apx nearly is",
        _DEFINED,
    ),
    (
        "2020",
        "IV-E",
        "if the distribution is another one, forcing a fit could lead to poor accuracy",
        _ADVICE,
    ),
    (
        "2020",
        "V-A",
        "the standard deviation is typically very small, and barely noticeable in the figures",
        "It has no number; each table prints standard errors.",
    ),
    (
        "2020",
        "V-B",
        "for values in between the two biases of Base-Cut cancel out at some point",
        "No rank is named; Figure 2 shows the curve.",
    ),
    (
        "2020",
        "V-B",
        "the shape of Power is similar to Norm-Cut's, that of PowerNS to Power's",
        "Shapes without a measure; Figure 2 shows them.",
    ),
    (
        "2020",
        "V-C",
        "for an unknown distribution we still recommend Base-Cut",
        _ADVICE,
    ),
    (
        "2020",
        "V-C",
        "the MSE of Base does not depend on the distribution",
        "A formula: the mean of the variances depends on the sum of the frequencies, which is 1.",
    ),
    (
        "2020",
        "V-D",
        "the MSE of sets is greater than that of single values; for small ρ it approaches it",
        _REPEATED + "2020-fig7, errors increase with ρ.",
    ),
    (
        "2020",
        "V-E",
        "if T is reduced, the MSE of Base-Cut can be lowered until it matches that of Norm-Cut",
        "With Norm-Cut's threshold Base-Cut is Norm-Cut: tests/test_papers.py.",
    ),
    (
        "2020",
        "VI",
        "exact MLE performs worse than Norm-Sub (Kairouz et al.)",
        "A finding of another paper; tests/test_papers.py shows a case of it.",
    ),
    (
        "2020, 2019",
        "V-F, VII, 4.5, 6",
        "summaries and recommendations",
        "They open this report as conclusions.",
    ),
    (
        "2019",
        "3.1",
        "Base-Pos is always as accurate as Base; around 2 false positives; ratio 10:1",
        "Algebra and arithmetic, as in the 2020 paper.",
    ),
    (
        "2019",
        "3.2",
        "Norm's variance is (d − 1)/d times Base's",
        "A check: 2020-fig3.",
    ),
    (
        "2019",
        "3.2",
        "Power is about 100 times slower than other methods; O(n d), or O(√n d)",
        _TIMING,
    ),
    (
        "2019",
        "3.3",
        "with the threshold of Norm-Cut Norm-Hyb is Norm-Cut",
        _DEFINED,
    ),
    (
        "2019",
        "4.2",
        "when epsilon is low all methods perform poorly",
        "It has no number; Figure 1 shows it.",
    ),
    (
        "2019",
        "4.3",
        "370 state economic areas of 0.2 % × 951 = 2 cities: results on them",
        "The data with these areas are not available to us (and 951 should be 915).",
    ),
    (
        "2019",
        "4.3",
        "49 states of 2 %, nine regions of 11 %",
        "A description of the data: ours have 49 states and the District of Columbia, and the "
        "nine census divisions.",
    ),
    (
        "2019",
        "4.4",
        "if T is reduced, the MSE of Norm-Hyb can be lowered until it matches that of Norm-Cut",
        "With Norm-Cut's threshold Norm-Hyb is Norm-Cut: tests/test_papers.py.",
    ),
    (
        "2019",
        "C.1",
        "Power takes more than 4 hours on Kosarak; sizes of the data sets (Table 2)",
        f"{_TIMING} Table 2 compares sizes; stand-ins are made to have them.",
    ),
    (
        "2019",
        "C.2",
        "MAE is greater than MSE; the MAE of the baselines is in the order of 1/√n",
        "Errors are below 1; and the second is the formula of the noise.",
    ),
    (
        "2019",
        "C.2",
        "relative performance under MAE is that under MSE; sparse data favour Base-Cut",
        "The data sets of the appendix have no figure of the full-domain MSE in the paper.",
    ),
    (
        "2019",
        "C.3",
        "for large epsilon the sum after Base-Cut is greater than one",
        "No epsilon is named; the sum is not among what the paper plots.",
    ),
    (
        "Calibrate",
        "I, V",
        "Calibrate significantly outperforms; reduces errors by orders of magnitude",
        _REPEATED + "calibrate-fig7, orders of magnitude.",
    ),
    (
        "Calibrate",
        "III-A",
        "Theorem 2: the conditional expectation has the least mean squared error",
        "Proved; tests/test_papers.py shows it for a known prior.",
    ),
    (
        "Calibrate",
        "III-C",
        "the mean-variance method is much more efficient than maximum likelihood",
        _TIMING,
    ),
    (
        "Calibrate",
        "IV-B",
        "OUE-Zero: precision rises and recall falls as the threshold becomes smaller",
        "Algebra: it finds the same items at all thresholds below the significance threshold.",
    ),
    (
        "Calibrate",
        "IV-B",
        "a smaller number of true and of false positives, which leads to a higher precision",
        _REPEATED + "calibrate-fig5 to 9, precision and recall.",
    ),
]
