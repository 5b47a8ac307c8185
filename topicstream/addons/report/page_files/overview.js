// The first screen: what lies beside the table of topics until one is chosen.
const LARGEST = 12, MOST_GROUPS = 10;
const crossed = () => D.a.cross ? D.columns[D.crossed] : null;
// Groups of column i with documents, the largest first, as numbers.
const groupsOf = i => D.columns[i].values.map((_, g) => g).filter(g => D.a[`by${i}Docs`][g] > 0).slice(0, MOST_GROUPS);
const groupShare = (i, g, k) => D.a["by" + i][g * D.K + k] * D.a[`by${i}Scale`][k];
const groupReach = (i, g, k) => reachOf("by" + i, g, k);
function overviewPanel() {
  const box = clear($("topic")), W = widthOf(innerWidth > 900 ? 560 : 760);
  box.append(el("h2", null, "Overview"));
  if (D.K > 2 && S.view !== "map") box.append(el("h3", null, "Topics that use similar words"), mapOf(W, W < 500 ? 400 : 380, false));
  const i = D.a.cross ? D.crossed : 0;
  if (D.columns.length && groupsOf(i).length > 1) box.append(el("h3", null, `Topics by ${D.columns[i].name}`), groupHeat(i));
  if (D.a.cross) box.append(el("h3", null, `Share over time, by ${crossed().name}`), lineChooser());
  if (!D.columns.length && D.a.over) box.append(el("h3", null, `Documents by ${D.grain}`), curve({ names: D.periods, value: [...D.a.periodDocs], format: whole, title: "Documents by period" }));
  if (box.children.length === 1) box.append(el("p", { class: "soft" }, "Choose a topic to read its words and documents."));
}
const HEAD = 15, PERSONS = /author|speaker|person|name|writer|editor|poet|artist/i;
// A name that fits a narrow head: of a person the surname stays, of anything else its beginning and its end.
function headOf(text, column) {
  const letters = [...text];
  if (letters.length <= HEAD) return text;
  if (PERSONS.test(column)) {
    const [surname, first] = text.split(/,\s*/);
    if (first) return cutEnd(surname);
    const parts = text.split(/\s+/), last = parts.pop();
    const short = [...parts.map(part => /^\p{Lu}/u.test(part) ? [...part][0] + "." : part), last].join(" ");
    return [...short].length <= HEAD ? short : cutEnd(last);
  }
  return letters.slice(0, HEAD - 8).join("").trim() + "…" + letters.slice(-7).join("").trim();
}
const cutEnd = text => [...text].length <= HEAD ? text : [...text].slice(0, HEAD - 1).join("") + "…";
// Topics by groups: how far the mean share in a group lies above that of all documents.
function groupHeat(i) {
  const groups = groupsOf(i).slice(0, innerWidth < 600 ? 5 : MOST_GROUPS), rows = Array.from({ length: D.K }, (_, k) => k).filter(k => D.kinds[k] === "live").sort((a, b) => D.size[b] - D.size[a] || a - b).slice(0, LARGEST);
  const cell = (k, g) => {
    const share = groupShare(i, g, k), mean = D.a.share[k] || 1e-9, ratio = Math.log2(Math.max(share, 1e-9) / mean), sure = Math.abs(share - mean) > groupReach(i, g, k);
    const text = `${D.names[k]}: ${percent(share)}${plusMinus(groupReach(i, g, k))} of ${D.columns[i].values[g]}, ${percent(mean)} of all`;
    return el("td", { class: ratio < 0 ? "cell less" : "cell", onpointermove: e => tip(e, text), onpointerleave: e => tip(e, "") }, el("i", { css: { opacity: sure ? Math.min(0.5, 0.2 * Math.abs(ratio)) : 0 } }), el("span", null, percent(share, share < 0.0095 ? 1 : 0).replace(" %", "")));
  };
  const head = groups.map(g => el("th", { scope: "col", title: D.columns[i].values[g], "aria-label": D.columns[i].values[g] }, el("span", {}, bdi(headOf(D.columns[i].values[g], D.columns[i].name)))));
  return el("div", null, el("div", { class: "wide" }, el("table", { class: "grid" }, el("thead", null, el("tr", null, el("th", null, el("span", { class: "soft" }, "%")), head)),
    el("tbody", null, rows.map(k => el("tr", null, el("th", { scope: "row" }, link(k)), groups.map(g => cell(k, g))))))),
  el("p", { class: "soft legend" }, el("i"), "more than in all documents ", el("i", { class: "less" }), "less; plain: no difference beyond an interval of 95 %."));
}
// Lines of groups over time for topic k.
function groupLines(k) {
  const n = D.periods.length, c = crossed(), series = [];
  for (let g = 0; g < D.shape.cross[0] / n; g++) {
    const docs = i => D.a.crossDocs[g * n + i];
    series.push({ name: c.values[g], value: D.periods.map((_, i) => D.a.cross[(g * n + i) * D.K + k] * D.a.crossScale[k]), known: i => docs(i) >= D.enough, docs });
  }
  return lineChart({ names: D.periods, series, format: v => percent(v), title: `Share of topic ${D.ids[k]} over time by ${c.name}` });
}
// How much the groups' shares of topic k differ beyond their errors.
function differ(i, k) {
  let sum = 0;
  for (const g of groupsOf(i)) sum += Math.max(0, Math.abs(groupShare(i, g, k) - D.a.share[k]) - groupReach(i, g, k)) || 0;
  return sum;
}
function lineChooser() {
  const order = Array.from({ length: D.K }, (_, k) => k).filter(k => D.kinds[k] === "live" || D.kinds.every(kind => kind !== "live")).sort((a, b) => differ(D.crossed, b) - differ(D.crossed, a) || a - b), chart = el("div");
  const select = el("select", { "aria-label": "Topic", onchange: () => draw() }, order.slice(0, 40).map(k => el("option", { value: k }, `${D.ids[k]} ${nameOf(k)}`)));
  const draw = () => clear(chart).append(groupLines(+select.value));
  draw();
  return el("div", null, el("div", { class: "bar" }, select), chart, el("p", { class: "soft" }, "Topics that differ most between the groups come first; periods of few documents are left out."));
}
