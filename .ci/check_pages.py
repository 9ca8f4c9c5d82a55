"""Find faults in the built documentation that Sphinx does not report: `make doc` runs it last.

The argument is the folder of the built pages. Each fault is one line: the page, the fault and the
text. Source listings (`_modules`) are left out, and notes and examples may have longer lines.
"""

import html
import re
import sys
from pathlib import Path

MAX_LINE = 88  # characters that fit into a code box beside both sidebars at 1,280 pixels
LONG_LINES = ("notes", "auto_examples")

SIGNATURE = re.compile(r'<dt class="sig sig-object py".*?</dt>', re.DOTALL)
BOX = re.compile(r"<pre[^>]*>.*?</pre>", re.DOTALL)
PYTHON_BOX = re.compile(r'<div class="highlight-python.*?</pre>', re.DOTALL)
ADDRESS = re.compile(r"&lt;[\w.]+ object at 0x\w+")
DOUBLED_PERCENT = re.compile(r"\S*\s?%%")


def shown(text):
    """Return the text that a browser shows of HTML."""
    return html.unescape(re.sub(r"<[^>]*>", "", text)).strip("\n")


def faults(page, max_line=MAX_LINE):
    """Yield (fault, text) of the HTML of a page."""
    for text in map(shown, SIGNATURE.findall(page)):
        if text.startswith("class") and "*args, **kwargs" in text:
            yield "class without its parameters", text
    for text in map(shown, BOX.findall(page)):
        if not text.strip():
            yield "empty code box", ""
    for text in map(shown, ADDRESS.findall(page)):
        yield "address of an object", text
    for text in map(shown, DOUBLED_PERCENT.findall(page)):
        yield "doubled percent sign", text
    for box in map(shown, PYTHON_BOX.findall(page)):
        for line in box.splitlines():
            if len(line) > max_line:
                yield f"code line of {len(line)} characters", line


def main(folder):
    pages = [path for path in sorted(folder.rglob("*.html")) if "_modules" not in path.parts]
    n_faults = 0
    for path in pages:
        name = path.relative_to(folder)
        max_line = sys.maxsize if name.parts[0] in LONG_LINES else MAX_LINE
        for fault, text in faults(path.read_text(encoding="utf-8"), max_line):
            print(f"{name}: {fault}: {text[:100]}")
            n_faults += 1
    if not pages:
        print(f"{folder} contains no pages. Run make doc.")
    return int(n_faults > 0 or not pages)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
