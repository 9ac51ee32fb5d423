// The plan, explain, the Corefile, events.

import { ask } from "/console.js";
import { card, clock, el, refresh } from "/dom.js";

const GOOD = new Set(["upstream_up", "reload", "certificate"]), BAD = new Set(["upstream_down", "reload_failed", "plugin_quarantined", "evicted", "shed"]);

/** A view that is drawn again only when what it shows has changed: a tree that is open stays open. */
function steady(section, draw) {
  let holder, drawn;
  return {
    sections: [section],
    mount(main) { drawn = undefined; main.append((holder = el("div"))); },
    show({ report }) {
      const now = JSON.stringify(report[section]);
      if (now === drawn || now === undefined) return;
      drawn = now;
      refresh(holder, draw(report[section]));
    },
  };
}

// ---- plan ----

export const plan = steady("plan", (found) => [
  found.not_ready.length > 0 && el("p", { class: "card warn" }, `Not ready: ${found.not_ready.join(", ")}`),
  found.servers.map((server) => el("section", { class: "card", "aria-label": server.address, style: { "margin-bottom": "14px" } },
    el("header", {}, el("h2", { class: "mono" }, server.address), el("span", { class: "muted" }, zoneCount(server))),
    server.zones.map((zone) => branch(zone, server.zones.length <= 4)))),
]);

function zoneCount(server) {
  const all = server.zones.length + server.zones_left_out;
  return `${all} ${all === 1 ? "zone" : "zones"}${server.zones_left_out ? `, ${server.zones.length} shown` : ""}`;
}

function branch(zone, opened) {
  const title = [el("strong", { class: "mono" }, zone.zone), zone.view && ` view ${zone.view}`, el("span", { class: "muted" }, `  ${zone.place}`)];
  return el("details", { open: opened }, el("summary", {}, title), el("div", { class: "tree" },
    el("ol", { class: "steps", "aria-label": `Plugins of ${zone.zone} in their order` }, zone.chain.map((step) => el("li", {},
      el("strong", { class: "mono" }, step.name),
      el("span", { class: `tag ${step.answers ? "answers" : ""}` }, step.answers ? "answers" : "passes on"),
      el("span", { class: "does muted" }, step.does, step.runs !== "native" && ` (${step.runs})`)))),
    zone.beside.length > 0 && el("p", { class: "muted" }, `Beside the chain: ${zone.beside.join(", ")}`)));
}

// ---- explain ----

const TYPES = ["A", "AAAA", "CNAME", "HTTPS", "MX", "NS", "PTR", "SOA", "SRV", "TXT", "ANY"];
const fields = {};
let said;

export const explain = {
  mount(main, { report }) {
    fields.name = el("input", { type: "text", required: true, placeholder: "www.example.org", autocomplete: "off", spellcheck: "false", value: fields.name?.value || null });
    fields.type = el("select", {}, TYPES.map((type) => el("option", {}, type)));
    fields.client = el("input", { type: "text", placeholder: "127.0.0.1", autocomplete: "off", value: fields.client?.value || null });
    fields.address = el("select", {}, (report.server?.listeners || []).map((address) => el("option", {}, address)));
    fields.tcp = el("input", { type: "checkbox" });
    const form = el("form", { class: "fields card", on: { submit: (event) => { event.preventDefault(); run(); } } },
      el("label", {}, "Name", fields.name), el("label", {}, "Type", fields.type), el("label", {}, "Client", fields.client),
      el("label", {}, "Address", fields.address), el("label", { class: "check" }, fields.tcp, "TCP"), el("button", { class: "primary", type: "submit" }, "Explain"));
    main.append(form, (said = el("div", { "aria-live": "polite" })));
  },
  show({ report }) {
    if (!fields.address.options.length) fields.address.append(...report.server.listeners.map((address) => el("option", {}, address)));
  },
};

async function run() {
  refresh(said, el("p", { class: "card muted" }, "asking"));
  try {
    const client = fields.client.value.trim();
    show(await ask("/api/explain", {
      name: fields.name.value.trim(), type: fields.type.value, address: fields.address.value, tcp: fields.tcp.checked ? "1" : "0", ...(client ? { client } : {}),
    }));
  } catch (error) {
    refresh(said, el("p", { class: "card bad" }, error.message));
  }
}

function show(found) {
  const microseconds = (value) => `${value.toFixed(1)} µs`;
  const arrows = { query: "→", reply: "←", resume: "…" };
  refresh(said, card(found.question, `zone ${found.zone || "none"}, ${microseconds(found.microseconds)} in all`,
    el("p", {}, el("strong", { class: found.outcome === "reply" ? "good" : "bad" }, found.outcome), " ", el("span", { class: "mono" }, found.answers.join(", "))),
    found.not_ready.length > 0 && el("p", { class: "warn" }, `Not ready: ${found.not_ready.join(", ")}`),
    el("ol", { class: "way", style: { "margin-top": "10px" } }, found.steps.map((step) => el("li", { style: { "--depth": step.depth } },
      el("span", { class: "at" }, microseconds(step.at)),
      el("span", { class: "says" }, `${arrows[step.hook] || ""} ${step.handler} `, el("span", { class: step.error ? "bad" : "muted" }, [step.says, step.upstream, step.note, step.error].filter(Boolean).join(" "))),
      el("span", { class: "took" }, microseconds(step.took)))))));
}

// ---- Corefile ----

export const corefile = steady("corefile", (found) => {
  const kind = (line) => (/^(@@|---|\+\+\+)/.test(line) ? "at" : line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "");
  const note = found.error ? `the file cannot be read: ${found.error}` : found.same ? "the file is the same" : "the file has changed since";
  return [
    found.difference.length > 0 && card("Difference of the file", "− serves, + is in the file", el("pre", { tabindex: "0" }, found.difference.map((line) => el("span", { class: `row ${kind(line)}` }, line || " ")))),
    el("div", { style: { height: found.difference.length ? "14px" : "0" } }),
    card(found.file, note, el("pre", { class: "numbered", tabindex: "0", "aria-label": "The Corefile that serves" }, found.serving.split("\n").map((line) => el("span", { class: "row" }, line || " ")))),
  ];
});

// ---- events ----

let list;

export const events = {
  mount(main) { main.append((list = el("div"))); },
  show({ events: found }) {
    const rows = [...found].reverse();
    refresh(list, card("Events", `${rows.length} since the page was opened or kept by the server`, rows.length === 0 ? el("p", { class: "empty" }, "Nothing has happened.") :
      el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ["Time", "What", "Of", "Cause"].map((title) => el("th", { scope: "col" }, title)))),
        el("tbody", {}, rows.map((row) => el("tr", {}, el("td", { class: "name" }, clock(row.time)),
          el("td", { class: GOOD.has(row.kind) ? "good" : BAD.has(row.kind) ? "bad" : "" }, row.kind.replaceAll("_", " ")),
          el("td", { class: "name" }, row.subject), el("td", {}, row.cause))))))));
  },
};
