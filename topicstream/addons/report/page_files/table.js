const COLUMNS = [
  { key: "id", name: "#", n: true, value: k => D.ids[k], up: true, hint: "number of the topic" },
  { key: "label", name: "Topic", value: k => D.names[k].toLowerCase(), up: true, hint: "label and most probable words" },
  { key: "size", name: "Share", n: true, value: k => D.rank[k], hint: "share of all tokens; the background and dead topics come last" },
  { key: "first", name: "Docs", n: true, hide: true, value: k => D.a.first[k], needs: "first", hint: "documents in which the topic is the largest, the background apart" },
  { key: "npmi", name: "NPMI", n: true, hide: true, value: k => D.a.npmi[k], needs: "npmi", hint: "coherence of the first ten words, -1 to 1" },
  { key: "trend", name: "Trend", hide: true, value: k => strength(k), needs: "over", hint: "share over time, sorted by how surely it rises" },
];
// Periods that say something: ten documents, or as many as the middle one has.
const known = i => D.a.periodDocs[i] >= D.enough;
const strength = k => D.a.slopeError[k] > 0 ? D.a.slope[k] / D.a.slopeError[k] : 0;
const T = { rows: [], order: [], sort: null, up: false, query: "" };
function topicsView() {
  const used = COLUMNS.filter(c => !c.needs || D.a[c.needs]);
  const search = el("input", { type: "search", id: "search", placeholder: D.a.typical ? "Search words, titles, passages" : "Search labels and words", "aria-label": "Search topics and their documents", oninput: e => { T.query = e.target.value; filter(); } });
  T.count = el("span", { class: "count", role: "status" });
  T.body = el("tbody");
  T.found = el("div", { "aria-live": "polite" });
  T.heads = used.map(c => {
    const th = el("th", { class: (c.n ? "n" : "") + (c.hide ? " hide" : ""), scope: "col" });
    th.append(el("button", { type: "button", title: c.hint, onclick: () => sort(c, T.sort === c ? !T.up : !!c.up) }, c.name));
    return { th, c };
  });
  T.used = used;
  T.known = known;
  T.rows = new Array(D.K).fill(null);
  sort(D.listing ? null : used.find(c => c.key === "size"), false);
  return el("div", null, el("div", { class: "bar" }, search, T.count),
    el("table", { class: "topics" }, el("thead", null, el("tr", null, T.heads.map(h => h.th))), T.body), T.found);
}
// Typical documents by topic with all that a search may find in them: title, id, fields, passage.
function documentTexts() {
  if (T.documents) return T.documents;
  T.documents = [];
  const n = D.a.typical ? D.shape.typical[1] : 0;
  for (let k = 0; k < D.K; k++) for (let i = 0; i < n; i++) {
    const d = D.documents[D.a.typical[k * n + i]];
    if (!d) continue;
    const passage = D.passages[k][i];
    T.documents.push({ k, i, text: [d.id, ...Object.values(d.meta || {}), passage ? passage[0] : ""].join(" ").toLowerCase() });
  }
  return T.documents;
}
const MOST_FOUND = 20;
// The documents that a search found, below the topics.
function showFound(found) {
  clear(T.found);
  if (!found.length) return;
  T.found.append(el("h3", null, `Documents: ${whole(found.length)}`), ...found.slice(0, MOST_FOUND).map(({ k, i }) => {
    const d = D.documents[D.a.typical[k * D.shape.typical[1] + i]], meta = d.meta || {};
    return el("div", { class: "doc" }, el("b", null, bdi(meta.title || d.id)), el("div", { class: "soft" }, "typical of ", link(k)), marked(D.passages[k][i]));
  }));
  if (found.length > MOST_FOUND) T.found.append(el("p", { class: "soft" }, `The first ${MOST_FOUND}; a longer query finds fewer.`));
}
function row(k) {
  if (T.rows[k]) return T.rows[k];
  const cells = T.used.map(c => {
    const cls = (c.n ? "n" : "") + (c.hide ? " hide" : "");
    if (c.key === "id") return el("td", { class: cls }, String(D.ids[k]));
    if (c.key === "label") return el("td", null, link(k), el("span", { class: "w" }, bdi(D.top[k].join(" "))));
    if (c.key === "size") return el("td", { class: cls }, el("span", { class: "size", "aria-hidden": "true" }, el("i", { css: { width: Math.min(100, 100 * D.size[k] / D.largest) + "%" } })), el("span", { class: "share" }, percent(D.size[k])));
    if (c.key === "first") return el("td", { class: cls }, whole(D.a.first[k]));
    if (c.key === "npmi") return el("td", { class: cls }, D.a.npmi[k] < -1 ? "–" : fixed(D.a.npmi[k], 2));
    return el("td", { class: cls }, spark(column("over", k).value, T.known));
  });
  const tr = el("tr", { onclick: e => { if (!e.target.closest("a")) go(`topic-${D.ids[k]}`); } }, cells);
  tr.dataset.text = [D.ids[k], D.names[k], ...D.top[k], ...words(k, 0.6, 30).filter(w => D.a.tokens[k] >= 1 && w.p > w.all).map(w => w.text)].join(" ").toLowerCase();
  return T.rows[k] = tr;
}
function sort(c, up) {
  T.sort = c;
  T.up = up;
  T.order = !c && D.listing ? [...D.listing] : Array.from({ length: D.K }, (_, k) => k);
  if (c) T.order.sort((a, b) => {
    const x = c.value(a), y = c.value(b);
    return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1) || a - b;
  });
  for (const { th, c: one } of T.heads) th.setAttribute("aria-sort", one === c ? (up ? "ascending" : "descending") : "none");
  draw();
}
// The first rows at once, the rest as soon as the page stands.
function draw() {
  T.body.replaceChildren(...T.order.slice(0, 120).map(row));
  filter(120);
  clearTimeout(T.later);
  if (D.K > 120) T.later = setTimeout(all, 30);
}
function all() {
  clearTimeout(T.later);
  if (T.body.children.length < D.K) {
    T.body.append(...T.order.slice(T.body.children.length).map(row));
    filter();
  }
}
function filter(some) {
  if (!some && T.body.children.length < D.K) return all();
  const parts = T.query.toLowerCase().split(/\s+/).filter(Boolean), has = text => parts.every(p => text.includes(p));
  const found = parts.length ? documentTexts().filter(d => has(d.text)) : [], there = T.order.filter(k => T.rows[k] && T.rows[k].isConnected);
  let kept = new Set(there.filter(k => has(T.rows[k].dataset.text)));
  if (!kept.size) kept = new Set(found.map(d => d.k)); // no topic by its own words: those of the documents
  for (const k of there) T.rows[k].hidden = !kept.has(k);
  const shown = kept.size;
  showFound(found);
  T.count.textContent = parts.length ? `${whole(shown)} of ${whole(D.K)} topics` : allTopics();
  if (typeof dim === "function") dim(parts);
}
function allTopics() { // the background is no topic of the reader's
  const background = D.kinds.filter(kind => kind === "background").length;
  return counted(D.K - background, "topic") + (background ? " and a background topic" : "");
}
function step(by) {
  const shown = T.order.filter(k => T.rows[k] && !T.rows[k].hidden);
  if (!shown.length) return;
  const at = shown.indexOf(S.topic);
  go(`topic-${D.ids[shown[at < 0 ? 0 : Math.max(0, Math.min(shown.length - 1, at + by))]]}`);
}
