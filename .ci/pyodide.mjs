// Collect and estimate in Pyodide, in node: `node .ci/pyodide.mjs WHEEL`, after `npm install pyodide`.
// Untested where it was written: numpy, scipy, scikit-learn and joblib come from Pyodide's own server.
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { loadPyodide } from "pyodide";

const wheel = process.argv[2];
const pyodide = await loadPyodide();
await pyodide.loadPackage(["numpy", "scipy", "scikit-learn", "joblib", "micropip"]);
const path = `/tmp/${basename(wheel)}`;
pyodide.FS.writeFile(path, await readFile(wheel));
await pyodide.runPythonAsync(`
import micropip
await micropip.install("emfs:${path}", deps=False)

import numpy as np
from sklearn_ldp import OLH, NormSub

oracle = OLH(epsilon=2.0, categories=["cat", "dog", "fish"])  # random_state=None: secure
raw = oracle.fit_transform(np.repeat(["cat", "dog", "fish"], [5000, 3000, 2000]))
estimate = NormSub().fit_transform(raw)
# Six standard errors of one category: a run in 10^8 fails without a reason.
assert abs(estimate["cat"] - 0.5) < 6 * raw.standard_errors().max(), estimate
print(estimate)
`);
