// Pictures of time series, as SVG. Each tells its last values to those who do not see it.

import { clock, el, svg } from "/dom.js";

const LEFT = 46, BOTTOM = 18, TOP = 6;

/** A small picture of one series; null is a gap. */
export function spark(values, kind = "s1") {
  const known = values.filter((value) => value !== null);
  const picture = svg("svg", { viewBox: "0 0 120 30", preserveAspectRatio: "none", "aria-hidden": "true" });
  if (known.length < 2) return picture;
  const most = Math.max(...known, 1e-12);
  const points = path(values, (place) => (120 * place) / (values.length - 1), (value) => 28 - (26 * value) / most);
  picture.append(svg("path", { class: `faint ${kind}`, d: closed(points, 29) }), svg("path", { class: `line ${kind}`, d: line(points), "vector-effect": "non-scaling-stroke" }));
  return picture;
}

/**
 * Lines, or areas on top of one another. series: [{name, kind, values}], all of the same length; the last value is of `time`, each `step` seconds after
 * the one before. format makes a text of a value.
 */
export function chart({ title, series, time, step, format, stacked = false, height = 170, most = 0 }) {
  const holder = el("div", { class: "chart" });
  const legend = el("div", { class: "legend" });
  const length = Math.max(0, ...series.map((one) => one.values.length));
  const told = (place) => refill(legend, series, place, format, place === length - 1 ? null : clock(time - (length - 1 - place) * step));
  if (length < 2) {
    holder.append(el("p", { class: "empty" }, "The first samples come after 20 seconds."));
    return el("div", {}, holder);
  }
  const draw = () => {
    const width = Math.max(260, holder.clientWidth || 560);
    holder.replaceChildren(drawn({ title, series, time, step, format, stacked, height, most, width, length, told }));
  };
  told(length - 1);
  new ResizeObserver(draw).observe(holder);
  return el("div", {}, holder, legend);
}

function drawn({ title, series, time, step, format, stacked, height, most, width, length, told }) {
  const sums = stacked ? layers(series, length) : series.map((one) => one.values);
  const top = nice(Math.max(most, ...sums.flat().filter((value) => value !== null), 1e-9));
  const x = (place) => LEFT + ((width - LEFT - 4) * place) / (length - 1);
  const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - value / top);
  const summary = `${title}: ${series.map((one) => `${one.name} ${format(last(one.values))}`).join(", ")}`;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": summary });
  for (const part of [0, 0.5, 1]) {
    picture.append(svg("line", { class: "rule", x1: LEFT, x2: width - 4, y1: y(top * part), y2: y(top * part) }),
      svg("text", { x: LEFT - 7, y: y(top * part) + 4, "text-anchor": "end" }, format(top * part)));
  }
  picture.append(...marks(time, step, length, x, height));
  series.map((one, place) => [one, place]).reverse().forEach(([one, place]) => {
    const points = path(sums[place], x, y);
    if (stacked) picture.append(svg("path", { class: `area ${one.kind}`, d: closed(points, y(0)) }));
    else picture.append(svg("path", { class: `line ${one.kind}`, d: line(points) }));
  });
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
  picture.append(cursor);
  picture.addEventListener("pointermove", (event) => {
    const at = event.clientX - picture.getBoundingClientRect().left;
    const place = Math.min(length - 1, Math.max(0, Math.round(((at - LEFT) / (width - LEFT - 4)) * (length - 1))));
    cursor.setAttribute("x1", x(place));
    cursor.setAttribute("x2", x(place));
    cursor.setAttribute("visibility", "visible");
    told(place);
  });
  picture.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); told(length - 1); });
  return picture;
}

function refill(legend, series, place, format, when) {
  legend.replaceChildren(...series.map((one) => el("span", { class: one.kind }, el("i"), one.name, el("b", {}, format(one.values[place])))),
    ...(when ? [el("span", {}, `at ${when}`)] : []));
}

/** Times below the picture, at round minutes. */
function marks(time, step, length, x, height) {
  const span = (length - 1) * step, found = [];
  const every = [60, 120, 300, 600, 900].find((candidate) => span / candidate <= 5) || 900;
  for (let at = Math.ceil((time - span) / every) * every; at <= time; at += every) {
    const place = length - 1 - (time - at) / step;
    if (x(place) > LEFT + 12) found.push(svg("text", { x: x(place), y: height - 3, "text-anchor": "middle" }, clock(at).slice(0, 5)));
  }
  if (!found.length) found.push(svg("text", { x: x(length - 1), y: height - 3, "text-anchor": "end" }, clock(time)));
  return found;
}

function layers(series, length) {
  const below = new Array(length).fill(0);
  return series.map((one) => one.values.map((value, place) => (value === null ? null : (below[place] += value))));
}

/** Runs of points without a gap. */
function path(values, x, y) {
  const runs = [[]];
  values.forEach((value, place) => {
    if (value === null || value === undefined) { if (runs.at(-1).length) runs.push([]); } else runs.at(-1).push([x(place), y(value)]);
  });
  return runs.filter((run) => run.length);
}

const pair = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function line(runs) {
  return runs.map((run) => `M${run.map(pair).join("L")}${run.length === 1 ? "h0.1" : ""}`).join("");
}

function closed(runs, bottom) {
  return runs.map((run) => `M${pair([run[0][0], bottom])}L${run.map(pair).join("L")}L${pair([run.at(-1)[0], bottom])}Z`).join("");
}

function last(values) {
  return values.findLast((value) => value !== null) ?? null;
}

/** The next of 1, 2, 5 times a power of ten. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999) ?? value;
}

/** A histogram: counts by bucket, with its bounds below. */
export function histogram(bounds, counts, format) {
  const first = counts.findIndex((value) => value > 0);
  if (first < 0) return el("p", { class: "empty" }, "No queries.");
  const end = Math.max(counts.findLastIndex((value) => value > 0) + 1, first + 6);
  const shown = counts.slice(first, end), sum = counts.reduce((total, value) => total + value, 0), most = Math.max(...shown);
  const rows = shown.map((value, place) => {
    const at = first + place, text = at < bounds.length ? `to ${format(bounds[at])}` : `above ${format(bounds.at(-1))}`;
    return el("tr", {}, el("th", { scope: "row" }, text), el("td", { style: { width: "70%" } }, el("div", { class: "share" }, el("i", { style: { width: `${(100 * value) / most}%` } }))),
      el("td", { class: "number" }, `${((100 * value) / sum).toFixed(1)} %`));
  });
  return el("table", {}, el("caption", { class: "skip" }, "Share of queries by the time that they took"), el("tbody", {}, rows));
}

/** Queries as dots: time to the right, how long they took upwards on a logarithmic scale. points: [{time, took, kind, text}]. */
export function timeline(points, format, height = 150) {
  const holder = el("div", { class: "chart" });
  const draw = () => {
    const width = Math.max(260, holder.clientWidth || 560);
    const times = points.map((point) => point.time), from = Math.min(...times), to = Math.max(...times, from + 1);
    const y = (took) => TOP + (height - TOP - BOTTOM) * (1 - (Math.log10(Math.min(10, Math.max(1e-6, took))) + 6) / 7);
    const x = (time) => LEFT + ((width - LEFT - 8) * (time - from)) / (to - from);
    const label = `${points.length} queries from ${clock(from)} to ${clock(to)}`;
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    for (const took of [1e-6, 1e-4, 1e-2, 1]) {
      picture.append(svg("line", { class: "rule", x1: LEFT, x2: width - 4, y1: y(took), y2: y(took) }),
        svg("text", { x: LEFT - 7, y: y(took) + 4, "text-anchor": "end" }, format(took)));
    }
    picture.append(svg("text", { x: LEFT, y: height - 3 }, clock(from)), svg("text", { x: width - 4, y: height - 3, "text-anchor": "end" }, clock(to)));
    for (const point of points) {
      picture.append(svg("circle", { class: `dot ${point.kind}`, cx: x(point.time).toFixed(1), cy: y(point.took).toFixed(1), r: 3 }, svg("title", {}, point.text)));
    }
    holder.replaceChildren(picture);
  };
  if (points.length) new ResizeObserver(draw).observe(holder);
  return holder;
}
