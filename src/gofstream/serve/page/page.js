// The page: listens to the server, and writes what it hears as text.
import * as charts from "/charts.js";

const HISTORY = 2000;
const PAGE = 25;
// Milliseconds without a sign of life after which the connection counts as lost.
const SILENCE = 12000;

const at = (id) => document.getElementById(id);
const say = (id, text) => { if (at(id).textContent !== text) at(id).textContent = text; };

const state = { rows: [], now: null, where: null, mark: "", offset: 0, heard: 0, waiting: null,
  // The page of the table: null for the newest, or the batch before which it ends.
  before: null, older: [] };

// Numbers.

const digits = (value, count = 3) =>
  value === null || value === undefined ? "–" : Number(value.toPrecision(count)).toLocaleString("en");
const fixed = (u) => (u === null ? "–" : u.toFixed(2));
const whole = (value) => Math.round(value).toLocaleString("en");

function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (count >= 999.5 && i < units.length - 1) { count /= 1000; i += 1; }
  return `${Number(count.toPrecision(2)).toLocaleString("en")} ${units[i]}`;
}

function span(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const moment = (seconds) => new Date(seconds * 1000).toLocaleString([], {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
  second: "2-digit" });

const largest = (u) => u.reduce((a, b) => (b !== null && (a === null || b > a) ? b : a), null);

// What is shown.

function showVerdict(now) {
  const { tone, head, sentence } = now.verdict;
  at("verdict").className = `card ${tone}`;
  say("head", head);
  say("sentence", sentence);
  say("store", now.store);
  document.title = `${now.open ? "⚠ " : ""}${head} - ${now.store}`;
  at("acknowledge").hidden = now.open === 0;
}

function showFacts(now) {
  say("highest", fixed(now.highest));
  say("highest-note", now.boundary === null ? "no boundary" : `boundary ${fixed(now.boundary)}`);
  say("batches", whole(now.batches));
  const states = Object.entries(now.states).map(([name, count]) => `${whole(count)} ${name}`);
  say("batches-note", states.join(", "));
  say("rate", now.rate ? `${digits(now.rate.batches)} / h` : "–");
  say("rate-note", now.rate
    ? `${whole(now.rate.events)} events / h, over the last ${now.rate.over} batches`
    : "batches per hour");
  const { e, note } = now.evidence;
  say("e-value", e ?? "–");
  say("e-value-note", note);
  say("scan-e", now.scan.e ?? "–");
  say("scan-note", now.scan.note);
  const kept = now.storage;
  say("storage-note", `The file has ${bytes(kept.file)}: models ${bytes(kept.models)}, events `
    + `${bytes(kept.events)} (${kept.kept}). Below, what each strategy would have to keep.`);
  say("width-note", now.widths.n === null ? "No batch was learnt yet."
    : `After batch ${now.widths.n}, all families.`);
}

function showTime() {
  const { now } = state;
  if (!now) return;
  const age = now.arrived === null ? null : Date.now() / 1000 + state.offset - now.arrived;
  say("age", age === null ? "–" : `${span(age)} ago`);
  say("age-note", age === null ? "" : moment(now.arrived));
  say("waiting", state.waiting === null ? "–" : whole(state.waiting));
  say("waiting-note", state.waiting === null ? "no inbox is watched" : "files in the inbox");
}

function cells(line, values) {
  for (const [text, kind] of values) {
    const cell = document.createElement("td");
    cell.textContent = text;
    if (kind) cell.className = kind;
    line.append(cell);
  }
  return line;
}

function showAlarms(now) {
  at("alarms").hidden = now.alarms.length === 0;
  const cut = now.rung > now.alarms.length ? `; the latest ${now.alarms.length} are listed` : "";
  say("alarms-note", now.rung ? `${whole(now.rung)} rang${cut}.` : "None rang.");
  at("alarms").tBodies[0].replaceChildren(...now.alarms.map((alarm) =>
    cells(document.createElement("tr"), [
      [whole(alarm.batch), "n"], [whole(alarm.since), "n"], [`${alarm.family}, ${alarm.at}`],
      [fixed(alarm.u), "n"], [fixed(alarm.boundary), "n"],
      alarm.acknowledged === null ? ["open", "over"]
        : [`${alarm.by}, ${moment(alarm.acknowledged)}`],
    ])));
}

function showWindows(now) {
  const { windows } = now.scan;
  at("windows-part").hidden = windows.length === 0;
  at("windows").tBodies[0].replaceChildren(...windows.map((found) =>
    cells(document.createElement("tr"), [
      [found.where], [found.kind], [whole(found.observed), "n"], [digits(found.expected), "n"],
      [digits(found.t), "n"],
    ])));
}

function showTable() {
  const { now } = state;
  const newest = state.before === null;
  const full = state.rows.filter((row) => row.name !== undefined);
  const rows = newest ? full.slice(-PAGE).reverse() : state.older;
  at("ledger").tBodies[0].replaceChildren(...rows.map((row) => {
    const u = largest(row.u);
    const over = u !== null && now.boundary !== null && u > now.boundary;
    return cells(document.createElement("tr"), [
      [whole(row.n), "n"], [row.name], [row.state, row.state], [fixed(u), over ? "n over" : "n"],
      [whole(row.events), "n"], [digits(row.expected, 5), "n"], [moment(row.arrived), "w"],
      [row.note],
    ]);
  }));
  say("shown", rows.length ? `${rows[rows.length - 1].n} to ${rows[0].n} of ${now.batches}` : "");
  at("newest").disabled = at("newer").disabled = newest;
  at("older").disabled = rows.length === 0 || rows[rows.length - 1].n <= 1;
}

let planned = false;
// However many messages come, pictures are drawn once for each frame that is shown.
function plan() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    if (!state.now || !window.Plotly) return;
    charts.curves(state.rows, state.now);
    charts.widths(state.now);
    charts.storage(state.rows, state.now);
    if (state.where) charts.ratios(state.where);
  });
}

// What is heard.

function beat(content) {
  state.heard = Date.now();
  if (content.time !== undefined) {
    state.offset = content.time - Date.now() / 1000;
    state.waiting = content.waiting;
  }
  at("link").className = "live";
  say("link-text", "Live");
  showTime();
}

function update(content, mark) {
  state.rows = (content.fresh ? [] : state.rows).concat(content.rows).slice(-HISTORY);
  state.now = content.now;
  if (mark) state.mark = mark;
  if (content.fresh) { state.before = null; state.where = null; at("where").replaceChildren(); }
  at("trouble").hidden = true;
  showVerdict(content.now);
  showFacts(content.now);
  showAlarms(content.now);
  showWindows(content.now);
  if (state.before === null) showTable();
  beat(content);
  plan();
}

function located(content) {
  state.where = content;
  say("where-note", content.columns.length
    ? `Learnt ratio exp F to the reference at σ = ${content.sigma}, batch ${content.now} alone and `
      + `batches ${content.first} to ${content.now} together, on ${content.words}.`
    : content.words);
  plan();
}

function lost() {
  at("link").className = "lost";
  say("link-text", "Connection lost, trying again…");
}

let source = null;
function listen() {
  if (source) source.close();
  source = new EventSource(`/live?after=${encodeURIComponent(state.mark)}`);
  const on = (kind, take) => source.addEventListener(kind, (event) =>
    take(JSON.parse(event.data), event.lastEventId));
  on("update", update);
  on("pulse", beat);
  on("where", located);
  on("trouble", (content) => { at("trouble").hidden = false; say("trouble", content.text); });
  source.onerror = lost;
  state.heard = Date.now();
}

// A connection may die without a word, and a browser gives up on some answers.
setInterval(() => {
  showTime();
  const closed = source.readyState === EventSource.CLOSED && Date.now() - state.heard > 2000;
  if (closed || Date.now() - state.heard > SILENCE) { lost(); listen(); }
}, 1000);

// What is done.

async function turn(before) {
  const answer = await fetch(`/batches?before=${before}`).catch(() => null);
  if (!answer || !answer.ok) { say("shown", "These batches cannot be fetched now."); return; }
  state.before = before;
  state.older = (await answer.json()).rows;
  showTable();
}

const newest = () => { state.before = null; showTable(); };
at("newest").addEventListener("click", newest);
at("newer").addEventListener("click", () => {
  const next = state.before + PAGE;
  if (next > state.now.batches) newest(); else turn(next);
});
at("older").addEventListener("click", () => {
  const rows = at("ledger").tBodies[0].rows;
  turn(Number(rows[rows.length - 1].cells[0].textContent.replace(/\D/g, "")));
});

at("acknowledge").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = at("acknowledge").querySelector("button");
  button.disabled = true;
  say("answer", "");
  try {
    const answer = await fetch("/alarms/acknowledge", {
      method: "POST",
      headers: { Authorization: `Bearer ${at("token").value}`, "Content-Type": "application/json" },
      // What came after the person looked is not acknowledged.
      body: JSON.stringify({ by: at("by").value, upto: state.now.batches }),
    });
    const content = await answer.json();
    say("answer", answer.ok ? "" : content.error);
    if (answer.ok) { at("token").value = ""; at("verdict").focus(); }
  } catch {
    say("answer", "The server does not answer.");
  }
  button.disabled = false;
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", plan);
listen();
