// The tables of the plugin top: who asks what, by namespace, client, name.

import { open } from "/console.js";
import { card, choice, count, el, percent, refresh, seconds as time, table } from "/dom.js";

const WINDOWS = [[60, "1 minute"], [600, "10 minutes"], [3600, "1 hour"]];
const TITLES = {
  clients: "Clients", names: "Names", domains: "Domains", nxdomain_clients: "NXDOMAIN by client", nxdomain_names: "NXDOMAIN by name", search_waste: "Search path waste",
  large_answers: "Large answers", slow_upstream_names: "Slow upstream names", servfail_causes: "Causes of SERVFAIL", aaaa_waste: "AAAA waste",
};
let seconds = 60, head, body;

export const clients = {
  sections: ["top"],
  request: () => ({ window: seconds, most: 20 }),

  mount(main) {
    main.append((head = el("div", { class: "fields" })), (body = el("div", { class: "grid" })));
  },

  show(known) {
    const top = known.report.top;
    refresh(head, choice("Window", WINDOWS, seconds, (value) => { seconds = value; delete known.report.top; open("clients"); }),
      top && top.sampled < 1 && el("span", { class: "muted" }, `estimated from one query in ${Math.round(1 / top.sampled)}`));
    if (!top) {
      refresh(body, el("p", { class: "card empty" }, "Nobody counts: the Corefile has no ", el("code", {}, "top"), "."));
      return;
    }
    const order = [...Object.keys(TITLES), ...Object.keys(top.tables)];
    const names = [...new Set(order)].filter((name) => top.tables[name]);
    refresh(body, namespaces(top.tables.clients, top.window), names.map((name) => ranking(name, top.tables[name])));
  },
};

/** The clients' counts by namespace: a storm is one row. */
function namespaces(table_, span) {
  const sums = new Map();
  for (const row of table_?.rows || []) {
    if (row.key.namespace) sums.set(row.key.namespace, (sums.get(row.key.namespace) || 0) + row.count);
  }
  const rows = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 10);
  if (!rows.length) return null;
  return card("Namespaces", `of the ${table_.rows.length} busiest clients`, table([
    ["Namespace", "name", ([name]) => name],
    ["queries", "number", ([, value]) => count(value)],
    ["share", "number", ([, value]) => percent(value / (table_.total || 1))],
    ["", "", ([, value]) => bar(value, rows[0][1])],
  ], rows));
}

function ranking(name, table_) {
  const most = table_.rows[0]?.count || 1;
  const waited = name === "slow_upstream_names"; // counts are microseconds
  const shown = (value) => (waited ? time(value / 1e6) : count(value));
  return card(TITLES[name] || name.replaceAll("_", " "), `${shown(table_.total)} in all${table_.error ? `, error at most ${shown(table_.error)}` : ""}`, table([
    ["", "name", (row) => subject(row.key)],
    [waited ? "waited" : "queries", "number", (row) => [shown(row.count), row.error ? el("span", { class: "sub" }, `± ${shown(row.error)}`) : null]],
    ["", "", (row) => bar(row.count, most)],
  ], table_.rows));
}

function bar(value, most) {
  return el("div", { class: "share", "aria-hidden": "true" }, el("i", { style: { width: `${(100 * value) / most}%` } }));
}

/** A key with what it leads to: the recorded queries of this name or client. */
function subject(key) {
  const { address, pod, namespace, node, name, ...rest } = key;
  const found = [];
  if (address) {
    found.push(el("button", { class: "link", type: "button", dataset: { key: `client ${address}` }, on: { click: () => open("queries", { client: address }) } }, pod || address));
    found.push(el("span", { class: "sub" }, [namespace, pod && address, node].filter(Boolean).join(" · ")));
  }
  if (name) found.push(el("button", { class: "link", type: "button", dataset: { key: `name ${name}` }, on: { click: () => open("queries", { name }) } }, name));
  const others = Object.entries(rest);
  if (others.length) found.push(el(found.length ? "span" : "span", { class: found.length ? "sub" : "" }, others.map(([label, value]) => (label === "type" || others.length === 1 ? value : `${label} ${value}`)).join(" · ")));
  return found;
}
