const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
// All text goes in as text nodes: whatever a word or a title holds, it is never read as markup.
function el(tag, attrs, ...children) {
  const node = document.createElement(tag);
  return fill(node, attrs, children);
}
function svg(tag, attrs, ...children) {
  return fill(document.createElementNS(SVG, tag), attrs, children);
}
function fill(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "css") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const bdi = text => el("bdi", null, text);
const clear = node => { node.replaceChildren(); return node; };
// Never -0: what is rounded to nothing has no sign.
const fixed = (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]*$)/, "");
const percent = (x, digits) => {
  const p = 100 * x;
  return p === 0 ? "0 %" : fixed(p, digits === undefined ? (p >= 9.95 ? 0 : p >= 0.095 ? 1 : 2) : digits) + " %";
};
// A slope and its error in the unit that fits the periods: percentage points a day, week, month, year, decade.
const UNITS = { day: [1 / 365.25, "day"], week: [7 / 365.25, "week"], month: [1 / 12, "month"], decade: [10, "decade"], century: [100, "century"] };
const unit = () => UNITS[D.grain] || [1, "year"];
function points(slope, error) {
  const [years] = unit(), e = 100 * years * error, digits = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(Math.max(2 * e, 1e-6)))));
  return { value: fixed(100 * years * slope, digits), error: fixed(2 * e, digits) };
}
const whole = x => Math.round(x).toLocaleString("en");
// A number with its noun: "1 document", "2 documents".
const counted = (n, noun) => `${whole(n)} ${noun}${Math.round(n) === 1 ? "" : "s"}`;

const D = { at: new Map() };
async function read() {
  const text = $("data").textContent;
  const binary = atob(text);
  const packed = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) packed[i] = binary.charCodeAt(i);
  if (typeof DecompressionStream !== "function") throw new Error("This browser is too old for the report (it needs DecompressionStream).");
  const raw = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  const length = new DataView(raw).getUint32(0, true);
  Object.assign(D, JSON.parse(new TextDecoder().decode(new Uint8Array(raw, 4, length))));
  let base = 4 + length;
  base += (8 - base % 8) % 8;
  D.a = {};
  D.shape = {};
  const types = { Uint8Array, Uint16Array, Uint32Array, Int16Array, Float32Array };
  for (const [name, [type, offset, shape]] of Object.entries(D.arrays)) {
    D.a[name] = new types[type](raw, base + offset, shape.reduce((p, n) => p * n, 1));
    D.shape[name] = shape;
  }
  D.K = D.ids.length;
  D.ids.forEach((id, k) => D.at.set(id, k));
  let total = 0;
  for (const t of D.a.tokens) total += t;
  D.size = Float64Array.from(D.a.tokens, t => total > 0 ? t / total : 0);
  // By size, the background and dead topics last: they are no topics to begin with.
  D.rank = D.size.map((share, k) => D.kinds[k] === "live" ? share : share - 1 - (D.kinds[k] === "dead"));
  const largest = kept => D.size.reduce((m, x, k) => kept(k) ? Math.max(m, x) : m, 0);
  D.largest = largest(k => D.kinds[k] === "live") || largest(() => true) || 1;
  D.top = [];
  for (let k = 0; k < D.K; k++) D.top.push(D.a.tokens[k] < 1 ? [] : words(k, 1, 10).map(w => w.text));
  if (D.a.periodDocs) D.enough = Math.max(1, Math.min(10, [...D.a.periodDocs].filter(n => n > 0).sort((a, b) => a - b)[D.a.periodDocs.filter(n => n > 0).length >> 1] || 1));
  colours();
}
// The first n words of topic k by relevance: lambda log p(w|k) + (1 - lambda) log(p(w|k) / p(w)).
function words(k, lambda, n) {
  const first = D.a.wordOffsets[k], last = D.a.wordOffsets[k + 1], found = [];
  for (let i = first; i < last; i++) {
    const w = D.a.wordIds[i];
    found.push({ w, score: D.a.wordLogP[i] - (1 - lambda) * D.a.wordMarginal[w], p: Math.exp(-D.a.wordLogP[i] / 2000), all: Math.exp(-D.a.wordMarginal[w] / 2000) });
  }
  found.sort((a, b) => a.score - b.score || a.w - b.w);
  return found.slice(0, n).map(f => ({ ...f, text: D.vocabulary[f.w] }));
}
// How alike topics i and j are: the Bhattacharyya coefficient, 0..1.
function alike(i, j) {
  if (i === j) return 1;
  const a = Math.min(i, j), b = Math.max(i, j);
  const q = D.a.similar[a * (2 * D.K - a - 1) / 2 + b - a - 1] / 63;
  return q * q;
}
function nearest(k, n) {
  if (!D.a.similar) {
    const m = D.shape.near[1], out = [];
    for (let i = 0; i < Math.min(n, m); i++) out.push([D.a.near[k * m + i], D.a.nearValue[k * m + i]]);
    return out.filter(p => p[1] > 0);
  }
  const all = [];
  for (let j = 0; j < D.K; j++) if (j !== k) all.push([j, alike(k, j)]);
  return all.sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, n).filter(p => p[1] > 0);
}
// A column of a quantised table [rows, K] with half of its intervals: NaN where there is none.
const NO_REACH = 65535;
const reachOf = (name, row, k) => {
  const number = D.a[name + "Reach"][row * D.K + k];
  return number === NO_REACH ? NaN : number * D.a[name + "ReachScale"][k];
};
const plusMinus = reach => Number.isFinite(reach) ? ` ± ${percent(reach).replace(" %", "")}` : "";
function column(name, k) {
  const rows = D.shape[name][0], value = [], reach = [];
  const s = D.a[name + "Scale"][k];
  for (let i = 0; i < rows; i++) {
    value.push(D.a[name][i * D.K + k] * s);
    reach.push(reachOf(name, i, k));
  }
  return { value, reach };
}
// Ten families of topics: the tree, cut.
function colours() {
  D.family = new Uint8Array(D.K);
  const want = Math.min(10, D.K), parts = new Map();
  for (let k = 0; k < D.K; k++) parts.set(k, [k]);
  for (let i = 0; i < D.K - want; i++) {
    const a = parts.get(D.a.treeLeft[i]), b = parts.get(D.a.treeRight[i]);
    parts.delete(D.a.treeLeft[i]);
    parts.delete(D.a.treeRight[i]);
    for (const k of b) a.push(k);
    parts.set(D.K + i, a);
  }
  [...parts.values()].sort((a, b) => b.length - a.length || a[0] - b[0]).forEach((part, c) => { for (const k of part) D.family[k] = c; });
}
const colour = k => `var(--c${D.family[k]})`;
// Background and dead topics are no topics to begin with: they are marked wherever they stand.
const KINDS = { background: "words that all documents share", dead: "next to nothing of the corpus" };
const saysKind = k => D.names[k].startsWith(`(${D.kinds[k]})`);
const kindMark = k => KINDS[D.kinds[k]] && !saysKind(k) ? el("span", { class: "kind", title: KINDS[D.kinds[k]] }, D.kinds[k]) : null;
const nameOf = k => KINDS[D.kinds[k]] && !saysKind(k) ? `${D.names[k]} (${D.kinds[k]})` : D.names[k];
const link = k => el("a", { href: `#topic-${D.ids[k]}` }, bdi(D.names[k]), kindMark(k));
