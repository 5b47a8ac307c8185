const M = { dots: [] };
function mapView() {
  const W = 720, H = 560, pad = 46, p = D.a.position;
  let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
  for (let k = 0; k < D.K; k++) {
    x0 = Math.min(x0, p[2 * k]); x1 = Math.max(x1, p[2 * k]);
    y0 = Math.min(y0, p[2 * k + 1]); y1 = Math.max(y1, p[2 * k + 1]);
  }
  const scale = Math.min((W - 2 * pad) / (x1 - x0 || 1), (H - 2 * pad) / (y1 - y0 || 1));
  const X = k => W / 2 + scale * (p[2 * k] - (x0 + x1) / 2), Y = k => H / 2 - scale * (p[2 * k + 1] - (y0 + y1) / 2);
  const most = Math.max(9, Math.min(34, 190 / Math.sqrt(D.K))), r = k => Math.max(2, most * Math.sqrt(D.size[k] / D.largest));
  const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Map of topics: similar ones lie near each other; the table lists them all" });
  const bySize = Array.from({ length: D.K }, (_, k) => k).sort((a, b) => D.size[b] - D.size[a] || a - b);
  M.dots = new Array(D.K);
  for (const k of bySize) {
    M.dots[k] = svg("circle", {
      class: "dot", cx: X(k).toFixed(1), cy: Y(k).toFixed(1), r: r(k).toFixed(1), css: { fill: colour(k) }, "data-topic": D.ids[k],
      onclick: () => { location.hash = `topic-${D.ids[k]}`; },
      onpointermove: e => tip(e, `${D.ids[k]} ${D.labels[k]} (${percent(D.size[k])}): ${D.top[k].slice(0, 7).join(" ")}`),
      onpointerleave: e => tip(e, ""),
    });
    root.append(M.dots[k]);
  }
  const taken = [];
  for (const k of bySize.slice(0, 160)) {
    const text = D.labels[k].length > 26 ? D.labels[k].slice(0, 25) + "…" : D.labels[k];
    const w = 5.9 * [...text].length, x = Math.max(2, Math.min(W - w - 2, X(k) - w / 2)), y = Y(k) + 4;
    const box = [x - 3, y - 11, x + w + 3, y + 4];
    if (taken.some(b => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) continue;
    taken.push(box);
    root.append(svg("text", { class: "halo", x: x.toFixed(1), y: y.toFixed(1), "aria-hidden": "true" }, text));
    if (taken.length > 60) break;
  }
  return el("div", null, root, el("p", { class: "soft" }, "Topics that use similar words lie near each other (classical scaling of Hellinger distances between their word distributions); the area is the share of tokens, the colour the branch of the tree. Two dimensions cannot show all distances: a topic's own page lists its nearest."));
}
function dim(parts) {
  for (let k = 0; k < M.dots.length; k++) if (M.dots[k]) M.dots[k].classList.toggle("off", parts.length > 0 && T.rows[k] !== null && T.rows[k].hidden);
}
