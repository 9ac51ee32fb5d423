// Rates: what happened between two readings of the totals, as fastdns/telemetry/difference.py has them.

export function quantile(share, bounds, counts) {
  const sum = counts.reduce((total, value) => total + value, 0), wanted = share * sum;
  if (!sum) return null;
  let below = 0, lower = 0;
  for (let place = 0; place < bounds.length; place++) {
    if (counts[place] && below + counts[place] >= wanted) return lower + ((bounds[place] - lower) * (wanted - below)) / counts[place];
    below += counts[place];
    lower = bounds[place];
  }
  return bounds.at(-1);
}

export function between(before, after) {
  const seconds = Math.max(after.time - before.time, 1e-3);
  const old = after.queries < before.queries ? { rcodes: {}, types: {}, transports: {}, latency: { counts: [] }, zones: [], cache: {}, upstreams: { rows: [] }, queries: 0 } : before;
  const zones = new Map(old.zones.map((row) => [zoneName(row), row])), upstreams = new Map(old.upstreams.rows.map((row) => [row.plugin + row.to, row]));
  const cache = rates(old.cache, after.cache, seconds);
  return {
    seconds,
    queries: (after.queries - old.queries) / seconds,
    rcodes: rates(old.rcodes, after.rcodes, seconds),
    types: rates(old.types, after.types, seconds),
    transports: rates(old.transports, after.transports, seconds),
    latency: latency(old.latency.counts, after.latency.counts, after.latency.bounds),
    zones: after.zones.map((row) => grown(zones.get(zoneName(row)), row, after.latency.bounds, seconds)).sort((a, b) => b.queries - a.queries),
    cache: { ...cache, entries: after.cache.entries, share: cache.requests ? cache.hits / cache.requests : null },
    upstreams: after.upstreams.rows.map((row) => grown(upstreams.get(row.plugin + row.to), row, after.upstreams.bounds, seconds)),
  };
}

export function zoneName(row) {
  return `${row.server} ${row.zone}${row.view ? ` ${row.view}` : ""}`;
}

function grown(before, row, bounds, seconds) {
  return {
    ...row,
    queries: Math.max(0, row.queries - (before?.queries || 0)) / seconds,
    rcodes: rates(before?.rcodes || {}, row.rcodes, seconds),
    ...latency(before?.latency || [], row.latency, bounds),
  };
}

function latency(before, after, bounds) {
  const counts = after.map((value, place) => Math.max(0, value - (before[place] || 0)));
  return { bounds, counts, p50: quantile(0.5, bounds, counts), p90: quantile(0.9, bounds, counts), p99: quantile(0.99, bounds, counts) };
}

function rates(before, after, seconds) {
  return Object.fromEntries(Object.entries(after).map(([key, value]) => [key, Math.max(0, (value - (before[key] || 0)) / seconds)]));
}
