// The page: reads the server every two seconds, and shows the chosen view.

import { age, clock, el, refresh } from "/dom.js";
import { between } from "/rates.js";
import { overview } from "/overview.js";
import { clients } from "/clients.js";
import { queries } from "/queries.js";
import { corefile, events, explain, plan } from "/views.js";

const INTERVAL = 2000, SAMPLES = 360;
const VIEWS = [
  ["overview", "Overview", overview], ["clients", "Who asks", clients], ["queries", "Queries", queries], ["plan", "Plan", plan],
  ["explain", "Explain", explain], ["corefile", "Corefile", corefile], ["events", "Events", events],
];
const THEMES = ["auto", "light", "dark"];
const byId = (id) => document.getElementById(id);

/** What is known of the server. */
export const known = { report: {}, rates: null, history: { step: 10, last: 0, time: 0, series: {} }, events: [], before: null, filter: {} };
let view = null, paused = false, timer = 0, turn = 0, token = sessionStorage.getItem("fastdns token") || "";

/** A page of the server as JSON. Throws an Error with the server's text. */
export async function ask(path, values = {}) {
  const fields = { "X-Requested-With": "fastdns", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const reply = await fetch(`${path}?${new URLSearchParams(values)}`, { headers: fields, cache: "no-store" });
  if (reply.status === 401) {
    login();
    throw new Error("token");
  }
  const body = reply.headers.get("Content-Type") === "application/json" ? await reply.json() : { problem: await reply.text() };
  if (!reply.ok) throw new Error(body.problem || `status ${reply.status}`);
  return body;
}

async function read() {
  clearTimeout(timer);
  const mine = ++turn; // a report that another request has overtaken does not count
  try {
    const sections = ["server", "rates", "events", "slo", "shadow", "canary", ...(view.sections || [])];
    const report = await ask("/api/status", { sections, history_after: known.history.last, events_after: known.events.at(-1)?.number || 0, ...view.request?.() });
    if (mine !== turn) return;
    take(report);
    state("live", paused ? "paused" : "live");
  } catch (error) {
    if (mine === turn && error.message !== "token") state("lost", error instanceof TypeError ? "no connection" : error.message);
  }
  if (mine === turn && !paused && !document.hidden && byId("login").hidden) timer = setTimeout(read, INTERVAL);
}

function take(report) {
  known.report = { ...known.report, ...report };
  const server = report.server;
  byId("host").textContent = `${server.host} · ${server.version} · up ${age(server.uptime)}`;
  document.title = `${server.host} – fastdns`;
  known.rates = known.before && between(known.before, report.rates);
  known.before = report.rates;
  remember(report.rates.history);
  const news = report.events.events.filter((event) => event.number > (known.events.at(-1)?.number || 0));
  known.events = [...known.events, ...news].slice(-500);
  if (!view.interrupted?.()) view.show(known);
}

/** Add later samples to those of the last hour; a server that has begun again is told by its numbers. */
function remember(later) {
  const history = known.history, restarted = later.last < history.last;
  const kept = restarted ? 0 : Math.max(0, ...Object.values(history.series).map((values) => values.length));
  const added = later.last - later.first + 1;
  const names = new Set([...(restarted ? [] : Object.keys(history.series)), ...Object.keys(later.series)]);
  const series = {};
  for (const name of names) {
    const before = (!restarted && history.series[name]) || new Array(kept).fill(null);
    series[name] = [...before, ...(later.series[name] || new Array(Math.max(0, added)).fill(null))].slice(-SAMPLES);
  }
  known.history = { ...later, series };
}

function state(kind, text) {
  const element = byId("state");
  element.className = `state ${kind}`;
  if (element.textContent !== text) element.textContent = text;
}

// ---- views ----

export function open(name, filter = {}) {
  known.filter = filter;
  if (location.hash === `#${name}`) choose();
  else location.hash = name;
}

function choose() {
  const chosen = VIEWS.find(([name]) => `#${name}` === location.hash) || VIEWS[0];
  for (const [name] of VIEWS) {
    const tab = byId(`tab-${name}`), selected = name === chosen[0];
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    if (selected) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  byId("view").setAttribute("aria-labelledby", `tab-${chosen[0]}`);
  view = chosen[2];
  refresh(byId("view"));
  view.mount?.(byId("view"), known);
  if (known.report.server) view.show(known);
  read();
}

function tabs() {
  byId("tabs").append(...VIEWS.map(([name, title], place) => el("button", {
    id: `tab-${name}`, role: "tab", type: "button", "aria-controls": "view", title: `${title} (${place + 1})`, on: { click: () => open(name) },
  }, title)));
  byId("view").setAttribute("role", "tabpanel");
  byId("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = VIEWS.findIndex(([name]) => byId(`tab-${name}`) === document.activeElement);
    const [name] = VIEWS[(at + step + VIEWS.length) % VIEWS.length];
    open(name);
    byId(`tab-${name}`).focus();
    event.preventDefault();
  });
}

// ---- tools ----

function pause() {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Resume" : "Pause";
  if (paused) state("", `paused at ${clock(Date.now() / 1000)}`);
  else read();
}

function theme(next) {
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  byId("theme").textContent = `Theme: ${next}`;
  byId("theme").setAttribute("aria-label", `Theme: ${next}`);
  localStorage.setItem("fastdns theme", next);
}

const nextTheme = () => theme(THEMES[(THEMES.indexOf(localStorage.getItem("fastdns theme") || "auto") + 1) % THEMES.length]);

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  if (event.key >= "1" && event.key <= String(VIEWS.length)) open(VIEWS[event.key - 1][0]);
  else if (event.key === "t") nextTheme();
  else if (event.key === " " && !event.target.matches("button, summary, a")) { pause(); event.preventDefault(); }
}

function login() {
  const wrong = token !== "";
  token = "";
  sessionStorage.removeItem("fastdns token");
  byId("login").hidden = false;
  byId("view").hidden = true;
  byId("refused").textContent = wrong ? "That is not the token." : "";
  state("lost", "token wanted");
  byId("token").focus();
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem("fastdns token", token);
  byId("token").value = "";
  byId("login").hidden = true;
  byId("view").hidden = false;
  choose();
});
byId("pause").addEventListener("click", pause);
byId("theme").addEventListener("click", nextTheme);
document.addEventListener("keydown", keys);
document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) read(); });
addEventListener("hashchange", choose);
theme(localStorage.getItem("fastdns theme") || "auto");
tabs();
choose();
