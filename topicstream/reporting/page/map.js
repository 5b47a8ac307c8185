const M = { dots: [] };
// Positions with the distance r from the middle drawn as asinh(r / s), s its median: one odd topic does not press the others together.
function near() {
  const p = D.a.position, r = Array.from({ length: D.K }, (_, k) => Math.hypot(p[2 * k], p[2 * k + 1]));
  const s = [...r].sort((a, b) => a - b)[D.K >> 1] || 1;
  return Float64Array.from(p, (v, i) => { const at = r[i >> 1] / s; return at > 0 ? v * Math.asinh(at) / at : v; });
}
function mapView() {
  // Lengths in units of the picture: ``unit`` of them are a pixel, so that a phone gets labels one can read.
  const W = 720, unit = Math.max(1, W / Math.max(280, Math.min(W, innerWidth - 32))), H = unit > 1.3 ? 900 : 560, pad = 46, p = near();
  let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
  for (let k = 0; k < D.K; k++) {
    x0 = Math.min(x0, p[2 * k]); x1 = Math.max(x1, p[2 * k]);
    y0 = Math.min(y0, p[2 * k + 1]); y1 = Math.max(y1, p[2 * k + 1]);
  }
  const sx = (W - 2 * pad) / (x1 - x0 || 1), sy = (H - 2 * pad) / (y1 - y0 || 1), least = Math.min(sx, sy);
  const X = k => W / 2 + Math.min(sx, 1.6 * least) * (p[2 * k] - (x0 + x1) / 2), Y = k => H / 2 - Math.min(sy, 1.6 * least) * (p[2 * k + 1] - (y0 + y1) / 2);
  const most = Math.max(9, Math.min(34, 190 / Math.sqrt(D.K))), r = k => unit * Math.max(2, most * Math.sqrt(D.size[k] / D.largest) / Math.sqrt(unit));
  const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Map of topics: similar ones lie near each other; the table lists them all" });
  const bySize = Array.from({ length: D.K }, (_, k) => k).sort((a, b) => D.size[b] - D.size[a] || a - b);
  M.dots = new Array(D.K);
  for (const k of bySize) {
    M.dots[k] = svg("circle", {
      class: "dot", cx: X(k).toFixed(1), cy: Y(k).toFixed(1), r: r(k).toFixed(1), css: { fill: colour(k) }, "data-topic": D.ids[k],
      onclick: () => go(`topic-${D.ids[k]}`),
      onpointermove: e => tip(e, `${D.ids[k]} ${D.labels[k]} (${percent(D.size[k])}): ${D.top[k].slice(0, 7).join(" ")}`),
      onpointerleave: e => tip(e, ""),
    });
    root.append(M.dots[k]);
  }
  const taken = [], longest = unit > 1.3 ? 18 : 26;
  for (const k of bySize.slice(0, 160)) {
    const text = D.labels[k].length > longest ? D.labels[k].slice(0, longest - 1) + "…" : D.labels[k];
    const w = 5.9 * unit * [...text].length, x = Math.max(2, Math.min(W - w - 2, X(k) - w / 2)), y = Y(k) + 4 * unit;
    const box = [x - 3 * unit, y - 11 * unit, x + w + 3 * unit, y + 4 * unit];
    if (taken.some(b => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) continue;
    taken.push(box);
    root.append(svg("text", { class: "halo", x: x.toFixed(1), y: y.toFixed(1), css: { "font-size": `${(11 * unit).toFixed(1)}px` }, "aria-hidden": "true" }, text));
    if (taken.length > 60) break;
  }
  return el("div", null, root, el("p", { class: "soft" }, "Topics that use similar words lie near each other (classical scaling of Hellinger distances between their word distributions); the area is the share of tokens, the colour the branch of the tree. Topics far from the middle are drawn nearer than they are, and two dimensions cannot show all distances: a topic's own page lists its nearest."));
}
function dim(parts) {
  for (let k = 0; k < M.dots.length; k++) if (M.dots[k]) M.dots[k].classList.toggle("off", parts.length > 0 && T.rows[k] !== null && T.rows[k].hidden);
}
