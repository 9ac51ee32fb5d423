// Elements and texts. Whatever comes from the server becomes text, never HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties and children; strings become text. Properties: class, dataset, on (handlers), and attributes. */
export function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace what an element holds, and leave the focus on what has the same data-key. */
export function refresh(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const scrolled = [...element.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  element.querySelectorAll(".scroll").forEach((part, place) => { part.scrollLeft = scrolled[place] || 0; });
  if (focused !== undefined) [...element.querySelectorAll("[data-key]")].find((other) => other.dataset.key === focused)?.focus({ preventScroll: true });
}

export function card(title, note, ...children) {
  return el("section", { class: "card", "aria-label": title }, el("header", {}, el("h2", {}, title), el("span", { class: "muted" }, note)), children);
}

/** columns: [title, class, cell(row)]. */
export function table(columns, rows, empty = "Nothing yet.") {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  const head = el("tr", {}, columns.map(([title, kind]) => el("th", { class: kind, scope: "col" }, title)));
  const body = rows.map((row) => el("tr", {}, columns.map(([, kind, cell]) => el("td", { class: kind }, cell(row)))));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, body)));
}

export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    el("button", { type: "button", "aria-pressed": String(value === chosen), dataset: { key: `${label} ${value}` }, on: { click: () => choose(value) } }, text));
  return el("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

// ---- texts ----

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)}M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)}k`;
  if (value >= 100) return value.toFixed(0);
  return value >= 10 || value === 0 ? value.toFixed(value === 0 ? 0 : 1) : value.toFixed(2);
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 1e-3) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(value < 1e-2 ? 2 : 0)} ms`;
  return `${value.toFixed(2)} s`;
}

export function percent(value) {
  return value === null || value === undefined ? "–" : `${(value * 100).toFixed(value > 0 && value < 0.0995 ? 1 : 0)} %`;
}

export function octets(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit++) value /= 1024;
  return `${value >= 100 || unit === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
}

export function count(value) {
  return new Intl.NumberFormat("en").format(Math.round(value));
}

export function age(value) {
  const days = Math.floor(value / 86400), hours = Math.floor(value / 3600) % 24, minutes = Math.floor(value / 60) % 60;
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : `${Math.floor(value)} s`;
}

export function clock(time, digits = 0) {
  const date = new Date(time * 1000), pad = (number, size = 2) => String(number).padStart(size, "0");
  const text = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return digits ? `${text}.${pad(date.getMilliseconds(), 3)}` : text;
}

export function shareBar(parts, label) {
  const sum = parts.reduce((total, [, value]) => total + value, 0) || 1;
  return el("div", { class: "share", role: "img", "aria-label": label, title: label },
    parts.filter(([, value]) => value > 0).map(([kind, value]) => el("i", { class: kind, style: { width: `${(100 * value) / sum}%` } })));
}
