// What the plugin recorder holds: queries as a timeline and a table, each with its way.

import { open } from "/console.js";
import { timeline } from "/charts.js";
import { card, choice, clock, count, el, octets, refresh, seconds } from "/dom.js";
import { rcodeKind } from "/overview.js";

const KINDS = [["recent", "Recent"], ["slow", "Slow"], ["failed", "Failed"], ["dropped", "Dropped"]];
let which = "recent", chosen = null, head, body, name, client;

export const queries = {
  sections: ["recorder"],
  request: () => ({ which, most: 200, ...(name.value.trim() ? { name: name.value.trim() } : {}), ...(client.value.trim() ? { client: client.value.trim() } : {}) }),
  interrupted: () => chosen !== null && body.querySelector("tr.chosen") !== null,

  mount(main, known) {
    chosen = null;
    delete known.report.recorder;
    name = el("input", { type: "text", value: known.filter.name || "", autocomplete: "off", spellcheck: "false" });
    client = el("input", { type: "text", value: known.filter.client || "", autocomplete: "off", spellcheck: "false" });
    known.filter = {};
    const form = el("form", { class: "fields", on: { submit: (event) => { event.preventDefault(); again(known); } } },
      (head = el("div")), el("label", {}, "Name", name), el("label", {}, "Client", client), el("button", { type: "submit" }, "Filter"));
    main.append(form, (body = el("div")));
  },

  show(known) {
    refresh(head, choice("Which", KINDS, which, (value) => { which = value; again(known); }));
    const recorder = known.report.recorder;
    if (!recorder) {
      refresh(body, el("p", { class: "card empty" }, "Nothing is recorded: the Corefile has no ", el("code", {}, "recorder"), "."));
      return;
    }
    const rows = [...recorder.queries].sort((a, b) => b.time - a.time);
    const points = rows.map((row) => ({ time: row.time, took: row.took || 0, kind: rcodeKind(row.rcode || "other"), text: `${row.name} ${row.type} ${row.rcode || ""}` }));
    const note = `${count(recorder.held)} held in ${octets(recorder.bytes)}`;
    refresh(body, card("Timeline", note, rows.length ? timeline(points, seconds) : el("p", { class: "empty" }, "No query.")), list(known, rows));
  },
};

function again(known) {
  chosen = null;
  const kept = { name: name.value, client: client.value };
  open("queries", kept);
}

function list(known, rows) {
  const line = (row) => {
    const key = `${row.time} ${row.name} ${row.type} ${row.client}`, selected = key === chosen;
    const toggle = () => { chosen = selected ? null : key; queries.show(known); };
    const cells = [
      el("td", { class: "name" }, el("button", { class: "link", type: "button", "aria-expanded": String(selected), dataset: { key }, on: { click: toggle } }, row.name), el("span", { class: "sub" }, row.type)),
      el("td", { class: `number ${row.rcode === "SERVFAIL" ? "bad" : ""}` }, row.rcode || "–"), el("td", { class: "number" }, seconds(row.took)),
      el("td", { class: "name" }, row.client, el("span", { class: "sub" }, row.transport)), el("td", { class: "name" }, row.upstream || ""), el("td", { class: "number" }, clock(row.time, 3)),
    ];
    const found = [el("tr", { class: selected ? "chosen" : "" }, cells)];
    if (selected) found.push(el("tr", { class: "chosen" }, el("td", { colspan: "6" }, details(row))));
    return found;
  };
  if (!rows.length) return null;
  const titles = [["Name", ""], ["rcode", "number"], ["took", "number"], ["Client", ""], ["Upstream", ""], ["Time", "number"]];
  return el("section", { class: "card", "aria-label": "Queries", style: { "margin-top": "14px" } }, el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, titles.map(([title, kind]) => el("th", { class: kind, scope: "col" }, title)))), el("tbody", {}, rows.slice(0, 200).map(line)))));
}

function details(row) {
  const asked = (row.asked || []).map((one) => `${one.upstream} after ${seconds(one.at)}: ${one.says}`);
  const facts = [["flags", [row.flags].flat().join(" ")], ["size", row.size ? `${row.size} octets` : ""], ["asked", asked.join("\n")], ["answer", (row.answer || []).join("\n")]].filter(([, value]) => value);
  return el("div", { class: "grid" }, el("div", {}, facts.map(([title, value]) => [el("p", { class: "muted" }, title), el("pre", {}, value)])),
    (row.stages || []).length ? el("div", {}, el("p", { class: "muted" }, "way"), el("ol", { class: "way" }, row.stages.map(stage))) : null);
}

/** A stage is a text, a list, or an object as `explain` has its steps. */
function stage(one) {
  if (typeof one !== "object" || one === null) return el("li", {}, el("span", {}), el("span", { class: "says" }, String(one)));
  if (Array.isArray(one)) return el("li", {}, el("span", {}), el("span", { class: "says" }, one.join(" ")));
  const { at, took, depth, ...rest } = one;
  const time = (value) => (typeof value === "number" ? seconds(value) : "");
  return el("li", {}, el("span", { class: "at" }, time(at)), el("span", { class: "says" }, Object.values(rest).filter((value) => value !== "" && value !== null).join(" ")), el("span", { class: "took" }, time(took)));
}
