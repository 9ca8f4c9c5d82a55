"""Count the letters of the code that `StringOracle` has by default: ``letter_code.py [OUTPUT]``.

The texts are the names of territories, languages, currencies, months and days in the Unicode CLDR,
as the package Babel has them, in lower case, each language with the same weight; one of 100 letters
is a space. A capital has 1/64 of the frequency of its letter. Digits and a few signs have at least
3e-4 of all, and each other letter of the Latin, Greek and Cyrillic scripts and sign of ASCII has at
least 1e-5, so that it may occur. These four were chosen among five sets by planned thresholds for
12 and 20 letters at epsilon 1 to 3, on 25 November 2026. The code is part of protocols: it stays.
"""

import json
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import babel

LANGUAGES = "en de fr es it pt nl sv fi pl cs tr".split()  # noqa: SIM905
OUTPUT = Path(__file__).parents[1] / "sklearn_ldp" / "_core" / "domains" / "data" / "letters.json"
SOURCE = (
    "Letters in names of territories, languages, currencies, months and days, in twelve languages "
    f"({' '.join(LANGUAGES)}): Unicode CLDR, as in Babel {babel.__version__}. Copyright 1991-2026 "
    "Unicode, Inc., Unicode License V3 (https://www.unicode.org/license.txt)."
)
RANGES = (
    (0x20, 0x7F),
    (0xA1, 0x180),
    (0x218, 0x21C),
    (0x386, 0x3CF),
    (0x400, 0x460),
    (0x490, 0x492),
)
LIKELY = "0123456789.-_@/'"
UNIT = 10**6


def texts(language: str) -> list[str]:
    """Return the names that CLDR has in a language."""
    locale = babel.Locale.parse(language)
    found = [*locale.territories.values(), *locale.languages.values(), *locale.currencies.values()]
    for widths in (*locale.months.values(), *locale.days.values()):
        found += widths["wide"].values()
    return [unicodedata.normalize("NFC", text).lower() for text in found]


def is_word(text: str) -> bool:
    """Whether there are no digits and brackets in it, as in the years of old currencies."""
    return text.replace("-", "").replace("'", "").replace("’", "").isalpha()


def counted() -> dict[str, int]:
    """Return how frequent each letter is, and the ends of words, in millionths."""
    shares: Counter = Counter({" ": 0.01})  # between words, chosen by hand
    for language in LANGUAGES:
        words = [word for text in texts(language) for word in text.split() if is_word(word)]
        of_language = Counter("".join(words))
        of_language[""] = len(words)
        for letter, n in of_language.items():
            shares[letter] += n / of_language.total() / len(LANGUAGES)
    for letter, share in list(shares.items()):
        if len(letter.upper()) == 1 and letter.upper() != letter:
            shares[letter.upper()] += share / 64
    known = {chr(point) for start, stop in RANGES for point in range(start, stop)}
    known = {one for one in known if one.isprintable() and unicodedata.is_normalized("NFC", one)}
    for letter in known | {""}:
        shares[letter] = max(shares[letter], 3e-4 if letter in LIKELY else 1e-5)
    return {one: round(UNIT * shares[one]) for one in sorted(known | {""})}


def main(output: Path) -> None:
    """Write the source, its licence and the frequencies."""
    output.parent.mkdir(exist_ok=True)
    text = json.dumps({"source": SOURCE, "letters": counted()}, ensure_ascii=False, indent=0)
    output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
