// Rates, latencies, zones, upstreams and bounds.

import { chart, histogram, spark } from "/charts.js";
import { card, count, el, octets, percent, rate, refresh, seconds, shareBar, table } from "/dom.js";

const RCODES = [["NOERROR", "s1"], ["NXDOMAIN", "s2"], ["SERVFAIL", "s3"], ["REFUSED", "s4"], ["other", "s5"]];
const parts = {};
let drawn = null;

export function rcodeKind(name) {
  return (RCODES.find(([rcode]) => rcode === name) || RCODES[4])[1];
}

export const overview = {
  mount(main) {
    drawn = null;
    for (const [name, kind] of [["notes", ""], ["tiles", "tiles"], ["charts", "flat"], ["tables", "flat"]]) parts[name] = el("div", { class: kind });
    main.append(parts.notes, parts.tiles, el("div", { class: "grid" }, parts.charts, parts.tables));
  },

  show({ report, rates, history }) {
    refresh(parts.notes, notes(report));
    refresh(parts.tiles, tiles(report, rates, history));
    if (drawn !== `${report.server.pid} ${history.last}`) {
      drawn = `${report.server.pid} ${history.last}`;
      refresh(parts.charts, charts(history));
    }
    refresh(parts.tables, latencies(rates), zones(report, rates), upstreams(report, rates), bounds(report.server), ...others(report));
  },
};

function notes(report) {
  if (report.rates.counted) return [];
  return el("p", { class: "card" }, "No server block counts its queries: rates need the plugin prometheus or console in the block.");
}

function tiles(report, rates, history) {
  const at = (name) => history.series[name] || [];
  const failed = rates && rates.queries ? (rates.rcodes.SERVFAIL || 0) / rates.queries : null;
  const bound = (name) => report.server.bounds.find((one) => one.name === name);
  const waiting = bound("queries waiting"), memory = bound("memory");
  return [
    tile("Queries a second", rate(rates?.queries), `${count(report.rates.queries)} since the start`, at("queries")),
    tile("Latency p99", seconds(rates?.latency.p99), `p50 ${seconds(rates?.latency.p50)}`, at("latency.p99"), "s6"),
    tile("SERVFAIL", percent(failed), `NXDOMAIN ${percent(rates && rates.queries ? (rates.rcodes.NXDOMAIN || 0) / rates.queries : null)}`, at("rcode.SERVFAIL"), "s3", failed > 0.01 ? "bad" : ""),
    tile("Cache hits", percent(rates?.cache.share), `${count(report.rates.cache.entries)} entries`, at("cache.hit_share")),
    tile("Waiting queries", count(waiting.used), `of at most ${count(waiting.most)}`, at("waiting"), "s4", waiting.used > waiting.most / 2 ? "warn" : ""),
    tile("Memory", octets(memory.used), memory.most ? `of ${octets(memory.most)}` : "no limit", at("memory"), "s5", memory.most && memory.used > memory.most * 0.9 ? "bad" : ""),
  ];
}

function tile(name, value, note, values, kind = "s1", mood = "") {
  return el("section", { class: "card tile", "aria-label": name }, el("span", { class: "name" }, name), el("span", { class: `value ${mood}` }, value),
    el("span", { class: "note" }, note), spark(values, kind));
}

function charts(history) {
  const { step, time, series } = history;
  const length = (series.queries || []).length, none = new Array(length).fill(null);
  const of = (name) => series[name] || none;
  const named = (prefix, most) => Object.keys(series).filter((name) => name.startsWith(prefix)).sort((a, b) => sum(series[b]) - sum(series[a])).slice(0, most);
  const colours = ["s1", "s2", "s4", "s6", "s3", "s5"];
  const upstream = named("upstream_p99.", 4), zone = named("zone.", 5);
  return [
    card("Queries by rcode", "a second, last hour", chart({
      title: "Queries a second by rcode", step, time, stacked: true, format: rate,
      series: RCODES.map(([name, kind]) => ({ name, kind, values: of(`rcode.${name}`) })).filter((one) => one.name === "NOERROR" || sum(one.values)),
    })),
    card("Latency", "of answers, last hour", chart({
      title: "Latency", step, time, format: seconds, series: [["p50", "s1"], ["p90", "s6"], ["p99", "s2"]].map(([name, kind]) => ({ name, kind, values: of(`latency.${name}`) })),
    })),
    zone.length > 1 && card("Queries by zone", "a second, last hour", chart({
      title: "Queries a second by zone", step, time, format: rate, series: zone.map((name, place) => ({ name: name.slice(5).replace(/^dns:\/\//, ""), kind: colours[place], values: of(name) })),
    })),
    upstream.length > 0 && card("Upstreams, p99", "last hour", chart({
      title: "Latency of upstreams, p99", step, time, format: seconds, series: upstream.map((name, place) => ({ name: name.slice(13), kind: colours[place], values: of(name) })),
    })),
    sum(of("cache.hit_share")) > 0 && card("Cache hits", "share of queries, last hour", chart({
      title: "Cache hits", step, time, format: percent, most: 1, series: [{ name: "hits", kind: "s1", values: of("cache.hit_share") }],
    })),
  ];
}

function sum(values) {
  return values.reduce((total, value) => total + (value || 0), 0);
}

function latencies(rates) {
  return card("Latency now", rates ? `${seconds(rates.latency.p50)} p50, ${seconds(rates.latency.p90)} p90, ${seconds(rates.latency.p99)} p99` : "",
    rates ? histogram(rates.latency.bounds, rates.latency.counts, seconds) : el("p", { class: "empty" }, "After the next reading."));
}

function rcodes(row) {
  const parts = Object.entries(row.rcodes).map(([name, value]) => [rcodeKind(name), value]);
  return row.queries ? shareBar(parts, Object.entries(row.rcodes).filter(([, value]) => value).map(([name, value]) => `${name} ${rate(value)}`).join(", ")) : null;
}

function zones(report, rates) {
  const rows = (rates?.zones || []).slice(0, 12);
  return card("Zones", report.rates.zones.length > 12 ? `12 busiest of ${report.rates.zones.length + report.rates.zones_left_out}` : "", table([
    ["Zone", "name", (row) => [row.zone, el("span", { class: "sub" }, row.server, row.view && ` · view ${row.view}`)]],
    ["q/s", "number", (row) => rate(row.queries)],
    ["rcodes", "", rcodes],
    ["p50", "number", (row) => seconds(row.p50)],
    ["p99", "number", (row) => seconds(row.p99)],
  ], rows, "No queries yet."));
}

function upstreams(report, rates) {
  if (!report.rates.upstreams.rows.length) return null;
  return card("Upstreams", "", table([
    ["Upstream", "name", (row) => [row.to, el("span", { class: "sub" }, row.plugin)]],
    ["q/s", "number", (row) => rate(row.queries)],
    ["rcodes", "", rcodes],
    ["p50", "number", (row) => seconds(row.p50)],
    ["p99", "number", (row) => seconds(row.p99)],
    ["failed checks", "number", (row) => el("span", { class: row.check_failures ? "bad" : "" }, count(row.check_failures))],
  ], rates?.upstreams || []));
}

function bounds(server) {
  const text = (bound, value) => (bound.unit === "octets" ? octets(value) : count(value));
  return card("Bounds", `${server.workers} workers · ${count(server.evicted)} evicted`, table([
    ["", "", (row) => row.name],
    ["used", "number", (row) => text(row, row.used)],
    ["at most", "number", (row) => (row.most ? text(row, row.most) : "–")],
    ["", "", (row) => row.most > 0 && shareBar([[row.used > row.most * 0.9 ? "s3" : row.used > row.most * 0.5 ? "s2" : "s1", row.used], ["", row.most - row.used]], percent(row.used / row.most))],
  ], server.bounds));
}

/** Sections of other plugins, where the Corefile has them. */
function others({ slo, canary, shadow }) {
  return [slo?.objectives?.length && objectives(slo.objectives), canary?.replies && trial(canary), shadow?.targets?.length && shadows(shadow.targets)];
}

function objectives(rows) {
  const total = (row) => row.within + row.late + row.failed, share = (row) => (total(row) ? row.within / total(row) : null);
  return card("SLO", "since the start", table([
    ["Zone", "name", (row) => [row.zone, el("span", { class: "sub" }, row.server, row.view && ` · view ${row.view}`)]],
    ["objective", "", (row) => `${Number((row.share * 100).toPrecision(12))} % in ${seconds(row.seconds)}`],
    ["within", "number", (row) => el("span", { class: share(row) !== null && share(row) < row.share ? "bad" : "" }, percentOf(share(row)))],
    ["late", "number", (row) => count(row.late)],
    ["failed", "number", (row) => count(row.failed)],
  ], rows));
}

/** Objectives are about parts of a percent. */
function percentOf(value) {
  return value === null ? "–" : `${(value * 100).toFixed(2)} %`;
}

function trial(canary) {
  const answers = (counts) => Object.entries(counts).map(([rcode, value]) => `${rcode} ${count(value)}`).join(", ") || "no answers";
  return card("Canary", `${percent(canary.share)} of the clients, ${count(canary.left)} s left`, table([
    ["Configuration", "", ([name]) => name],
    ["answers", "", ([, counts]) => answers(counts)],
  ], Object.entries(canary.replies)), el("p", { class: "muted" }, `fails if ${canary.conditions || "told so"}`));
}

function shadows(rows) {
  const differences = (row) => Object.values(row.differences).reduce((sum, value) => sum + value, 0);
  return card("Shadow", "", table([
    ["Server", "name", (row) => [row.servers[1], el("span", { class: "sub" }, row.state)]],
    ["questions", "number", (row) => count(row.questions)],
    ["differences", "number", (row) => el("span", { class: differences(row) ? "bad" : "" }, count(differences(row)))],
    ["", "", (row) => Object.entries(row.differences).map(([kind, value]) => `${kind} ${count(value)}`).join(", ")],
  ], rows));
}
