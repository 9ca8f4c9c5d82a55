// Ask the question, draw a report on this device, and send it until the server has stored it.
import { configuration, privatize } from "./client.mjs";

const { categories, memo, is_set: isSet } = JSON.parse(document.querySelector("main").dataset.poll);
const [form, choices, said, leaves] = ["form", "choices", "said", "leaves"].map((id) => document.getElementById(id));
const name = `sklearn_ldp poll ${memo}`;
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
let inMemory = null; // if the browser stores nothing
let isSending = false;

function kept() {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? inMemory;
  } catch {
    return inMemory;
  }
}

function keep(entry) {
  inMemory = entry;
  try {
    if (entry) localStorage.setItem(name, JSON.stringify(entry));
    else localStorage.removeItem(name);
  } catch {
    // The report is still sent, unless this page is closed.
  }
}

function show(text) {
  const entry = kept();
  form.hidden = Boolean(entry);
  said.textContent = text ?? (entry?.sent ? "This browser has answered. Thank you." : "");
  leaves.textContent = entry ? `The report: ${JSON.stringify(JSON.parse(entry.body).report)}` : "";
}

// The stored report is sent repeatedly with the same nonce, so that the server counts it once.
async function send() {
  if (isSending) return;
  isSending = true;
  for (let wait = 1000; kept() && !kept().sent; wait = Math.min(2 * wait, 30000)) {
    const entry = kept();
    let status = 0;
    try {
      const headers = { "Content-Type": "application/json" };
      ({ status } = await fetch("reports", { method: "POST", headers, body: entry.body }));
    } catch {
      // The server cannot be reached.
    }
    if (status === 204) {
      keep({ ...entry, sent: true });
      show();
    } else if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
      keep(null);
      show(`The server refused this report (${status}). Reload the page, because the question may have changed.`);
    } else {
      show("The server cannot be reached. The report is stored here, and will be sent again.");
      await pause(wait * (0.5 + Math.random()));
    }
  }
  isSending = false;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const given = new FormData(form).getAll("answer");
  const chosen = categories ? given.map((i) => categories[i]) : given.join("\n").split("\n").map((x) => x.trim()).filter((x) => x);
  if (kept() || !(isSet || chosen.length)) return show();
  const report = privatize(isSet ? chosen : chosen[0]);
  const nonce = Array.from(crypto.getRandomValues(new Uint8Array(16)), (x) => x.toString(16).padStart(2, "0"));
  keep({ body: JSON.stringify({ version: 1, configuration, nonce: nonce.join(""), report }) });
  show("Sending ...");
  send();
});

if (isSet) choices.append(categories ? "All that apply, or none:" : "All that apply, one in each line, or none:");
for (const [i, category] of (categories ?? [""]).entries()) {
  const label = document.createElement("label");
  const input = document.createElement(isSet && !categories ? "textarea" : "input");
  Object.assign(input, { name: "answer", value: categories ? i : "", required: !isSet });
  if (input.type !== "textarea") input.type = categories ? (isSet ? "checkbox" : "radio") : "text";
  label.append(input, ` ${category ?? "no answer"}`);
  choices.append(label);
}
addEventListener("online", send);
show();
send();
