function timeView() {
  const box = el("div"), k10 = Array.from({ length: D.K }, (_, k) => k);
  if (D.a.over) {
    const by = (sign, name) => {
      const list = k10.filter(k => sign * strength(k) > 2).sort((a, b) => sign * (strength(b) - strength(a)) || a - b).slice(0, 12);
      return el("div", null, el("h3", null, name), list.length ? el("table", null, el("tbody", null, list.map(k => el("tr", null, el("td", null, link(k)), el("td", null, spark(column("over", k).value, known)), el("td", { class: "n soft" }, points(D.a.slope[k], D.a.slopeError[k]).value))))) : el("p", { class: "soft" }, "None for sure."));
    };
    box.append(el("h2", null, "Over time"), el("div", { class: "two" }, by(1, "Rising"), by(-1, "Falling")), el("p", { class: "soft" }, `Slope of a line through the documents' shares, percentage points a ${unit()[1]}; only slopes beyond two standard errors, most certain first.`),
      el("h3", null, `Documents by ${D.grain}`), curve({ names: D.periods, value: [...D.a.periodDocs], format: whole, title: "Documents by period" }));
  }
  D.columns.forEach((c, i) => {
    const list = el("div"), select = el("select", { "aria-label": `A value of ${c.name}`, onchange: () => draw() }, c.values.map((v, g) => el("option", { value: g }, v)));
    const draw = () => {
      const g = +select.value, rows = k10.map(k => ({ k, value: D.a["by" + i][g * D.K + k] * D.a[`by${i}Scale`][k], reach: reachOf("by" + i, g, k) }));
      rows.sort((a, b) => (b.value - D.a.share[b.k]) / (b.reach || 1) - (a.value - D.a.share[a.k]) / (a.reach || 1));
      clear(list).append(el("p", { class: "soft" }, `${counted(D.a[`by${i}Docs`][g], "document")}; topics that stand out most from the whole corpus:`),
        el("table", null, el("tbody", null, rows.slice(0, 10).map(r => el("tr", null, el("td", null, link(r.k)), el("td", { class: "n" }, percent(r.value)), el("td", { class: "n soft" }, `all: ${percent(D.a.share[r.k])}`))))));
    };
    box.append(el("h3", null, `By ${c.name}`), el("div", { class: "bar" }, select), list);
    draw();
  });
  return box;
}
function aboutView() {
  const box = el("div", null, el("h2", null, "The model")), facts = el("div", { class: "facts" });
  const fact = (value, name, hint) => facts.append(el("div", { title: hint || "" }, el("b", null, value), el("span", { class: "soft" }, name)));
  const number = allTopics().split(" ");
  fact(number[0], number.slice(1).join(" "));
  if (D.docs) fact(whole(D.docs), D.docs === 1 ? "training document" : "training documents", D.leftOut ? `and ${whole(D.leftOut)} without a known word, which count in no mean` : "");
  fact(whole(D.words), "words in the vocabulary");
  if (D.heldout) fact(whole(D.heldout.perplexity), `held-out perplexity, ${counted(D.heldout.docs, "document")}`, D.heldout.measured);
  if (D.coherence && D.coherence.npmi !== null) fact(D.coherence.npmi.toFixed(3), "mean NPMI coherence", D.coherence.measured);
  fact(D.diversity.toFixed(2), "topic diversity", "share of distinct words among the first 25 of all topics");
  box.append(facts);
  if (D.heldout) box.append(el("p", { class: "soft" }, `Held-out perplexity: ${D.heldout.measured.replace(/^perplexity of/, "that of")}.`));
  if (D.coherence) box.append(el("p", { class: "soft" }, `Coherence: ${D.coherence.measured}.`));
  for (const note of D.notes) box.append(el("p", { class: "note" }, note));
  const h = D.history || {};
  for (const [key, name] of [["heldout_perplexity", "Held-out perplexity by pass"], ["running_perplexity", "Running perplexity by pass"]]) {
    if (h[key] && h[key][0].length > 1) box.append(el("h3", null, name), curve({ names: h[key][0].map(String), value: h[key][1], format: whole, low: true, title: name, say: i => `pass ${h[key][0][i]}: ${h[key][1][i].toFixed(1)}` }));
  }
  box.append(el("h3", null, "Settings and provenance"), el("table", { class: "plain" }, el("tbody", null, D.settings.map(([name, value]) => el("tr", null, el("td", null, name), el("td", null, bdi(value)))))));
  box.append(el("p", { class: "soft" }, `Made by topics report, ${D.made.replace("T", " ").replace("+00:00", " UTC")}. Topics keep their numbers; relevance after Sievert & Shirley (2014); intervals of means are Student's, with each group's own variance; they take the topics as known.`));
  return box;
}
