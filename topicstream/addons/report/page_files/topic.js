function topicPanel(k) {
  const box = clear($("topic"));
  const id = D.ids[k], part = (name, ...nodes) => box.append(el("h3", null, name), ...nodes);
  box.append(el("div", { class: "topline" }, el("h2", null, `${id} `, bdi(D.names[k]), kindMark(k)), el("button", { type: "button", class: "close", onclick: () => go("overview") }, innerWidth > 900 ? "Overview" : "Back")));
  const facts = [`${percent(D.size[k])} of all tokens`];
  if (D.a.share) facts.push(`${percent(D.a.share[k])} of a document on average`);
  if (D.a.share && D.kinds[k] !== "background") facts.push(`largest topic of ${counted(D.a.first[k], "document")}`);
  if (D.a.npmi && D.a.npmi[k] >= -1) facts.push(`NPMI ${fixed(D.a.npmi[k], 2)}`);
  if (D.members[k] > 1) facts.push(`${D.members[k]} trained topics merged`);
  if (!D.named[k]) facts.push("label proposed from its words");
  box.append(el("p", { class: "soft" }, facts.join(" · ")));
  if (D.a.tokens[k] < 1) box.append(el("p", { class: "note" }, "This topic is empty: no token is assigned to it."));
  else if (D.kinds[k] === "dead") box.append(el("p", { class: "note" }, "This topic is dead: it holds next to nothing of the corpus, and its words are chance. Means of coherence leave it out."));
  if (D.kinds[k] === "background") box.append(el("p", { class: "note" }, "This is the background topic: it holds the words that all documents share."));
  part("Words", wordList(k));
  if (D.a.over) part(`Share over time, by ${D.grain}`, timeChart(k));
  D.columns.forEach((c, i) => {
    part(`Share by ${c.name}`, groupBars(k, c, i));
    if (D.a.cross && i === D.crossed) part(`Share by ${c.name} over time`, groupLines(k));
  });
  if (D.a.typical) part("Typical documents", ...typicalDocs(k));
  const near = nearest(k, 8);
  if (near.length) part("Topics with similar words", chips(near.map(([j, v]) => [j, v.toFixed(2)])));
  if (D.a.link) {
    const n = D.shape.link[1], found = [];
    for (let i = 0; i < n; i++) if (D.a.linkValue[k * n + i] > 0.005) found.push([D.a.link[k * n + i], D.a.linkValue[k * n + i].toFixed(2)]);
    if (found.length) part("Topics in the same documents", chips(found), el("p", { class: "soft" }, `Correlation of shares over ${counted(D.linked, "document")}.`));
  }
}
// A passage: its text, then the starts and ends of its marked words, in code points.
function marked(passage) {
  if (!passage) return null;
  const [text, ...edges] = passage, points = [...text], ends = [0, ...edges, points.length];
  return el("p", null, el("bdi", null, ends.slice(1).map((end, i) => i % 2 ? el("mark", null, points.slice(ends[i], end).join("")) : points.slice(ends[i], end).join(""))));
}
const chips = list => el("ul", { class: "chips" }, list.map(([j, v]) => el("li", null, fill(link(j), null, [el("span", { class: "soft" }, " " + v)]))));
function wordList(k) {
  const body = el("tbody"), output = el("output");
  const draw = lambda => {
    const list = words(k, lambda, 20), top = Math.max(...list.map(w => Math.max(w.p, w.all)));
    output.textContent = `λ = ${lambda.toFixed(1)}`;
    clear(body).append(...list.map(w => el("tr", { title: `${(100 * w.p).toPrecision(3)} % of the topic, ${(100 * w.all).toPrecision(3)} % of all words` },
      el("td", null, bdi(w.text)),
      el("td", null, el("div", { class: "pair" }, el("i", { css: { width: 100 * w.p / top + "%" } }), el("i", { class: "o", css: { width: 100 * w.all / top + "%" } }))))));
  };
  const id = "lambda";
  const slider = el("input", { type: "range", id, min: 0, max: 1, step: 0.1, value: S.lambda, "aria-label": "Relevance: from words that only this topic has to its most probable words", oninput: e => { S.lambda = +e.target.value; draw(S.lambda); } });
  draw(S.lambda);
  return el("div", null, el("div", { class: "slide" }, el("label", { class: "soft", for: id }, "rare elsewhere"), slider, el("span", { class: "soft" }, "most probable"), output), el("p", { class: "soft legend" }, el("i"), "in this topic ", el("i", { class: "o" }), "in all topics"), el("table", { class: "words" }, body));
}
function timeChart(k) {
  const { value, reach } = column("over", k);
  const note = [];
  if (D.a.slope && D.a.slopeError[k] > 0) {
    const z = strength(k), per = points(D.a.slope[k], D.a.slopeError[k]);
    note.push(`${Math.abs(z) < 2 ? "No clear trend" : z > 0 ? "Rising" : "Falling"}: ${per.value} ± ${per.error} percentage points a ${unit()[1]}`);
  }
  return el("div", null, curve({
    names: D.periods, value, reach, known: i => D.a.periodDocs[i] > 0, enough: known, format: v => percent(v), title: `Share of topic ${D.ids[k]} over time`,
    say: i => `${D.periods[i]}: ${percent(value[i])}${plusMinus(reach[i])} (${counted(D.a.periodDocs[i], "document")})`,
  }), el("p", { class: "soft" }, `Mean share of the documents of a period, with intervals of 95 %; faint dots are periods of few documents; ${D.limits.join("; ")}. `, note.join("")));
}
function groupBars(k, c, i) {
  const { value, reach } = column("by" + i, k);
  const rows = c.values.map((name, g) => ({ name, value: value[g], reach: reach[g], docs: D.a[`by${i}Docs`][g] })).filter(r => r.docs > 0);
  rows.sort((a, b) => b.value - a.value);
  const rest = rows.length > 12 ? rows.slice(12) : [];
  const more = rest.length ? el("details", null, el("summary", null, `${rest.length} more`), bars(rest)) : null;
  return el("div", null, bars(rows.slice(0, 12)), more, el("p", { class: "soft" }, `±: intervals of 95 %; ${D.limits.join("; ")}.`), c.distinct > c.values.length ? el("p", { class: "soft" }, `The ${c.values.length} most frequent of ${whole(c.distinct)} values.`) : null);
}
function typicalDocs(k) {
  const n = D.shape.typical[1], out = [];
  for (let i = 0; i < n; i++) {
    const d = D.documents[D.a.typical[k * n + i]];
    if (!d) continue;
    const meta = d.meta || {}, about = [meta.date, ...Object.entries(meta).filter(([name]) => name !== "title" && name !== "date").map(([, v]) => v), d.source];
    out.push(el("div", { class: "doc" }, el("b", null, bdi(meta.title || d.id)), el("div", { class: "soft" }, `${percent(D.a.typicalShare[k * n + i], 0)} · `, bdi([meta.title ? d.id : null, ...about].filter(Boolean).join(" · "))), marked(D.passages[k][i])));
  }
  return out.length ? out : [el("p", { class: "soft" }, "None.")];
}
