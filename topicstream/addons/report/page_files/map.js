const M = { maps: [] };
// Positions with the distance r from the middle drawn as asinh(r / s), s its median: one odd topic does not press the others
// together.  In a picture of W by H; then circles that lie on each other are pushed apart.
function places(W, H, pad, radius) {
  const p = D.a.position, r = Array.from({ length: D.K }, (_, k) => Math.hypot(p[2 * k], p[2 * k + 1]));
  const s = [...r].sort((a, b) => a - b)[D.K >> 1] || 1;
  const near = Float64Array.from(p, (v, i) => { const at = r[i >> 1] / s; return at > 0 ? v * Math.asinh(at) / at : v; });
  let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
  for (let k = 0; k < D.K; k++) {
    x0 = Math.min(x0, near[2 * k]); x1 = Math.max(x1, near[2 * k]);
    y0 = Math.min(y0, near[2 * k + 1]); y1 = Math.max(y1, near[2 * k + 1]);
  }
  const sx = (W - 2 * pad) / (x1 - x0 || 1), sy = (H - 2 * pad) / (y1 - y0 || 1);
  const X = Float64Array.from({ length: D.K }, (_, k) => W / 2 + sx * (near[2 * k] - (x0 + x1) / 2));
  const Y = Float64Array.from({ length: D.K }, (_, k) => H / 2 - sy * (near[2 * k + 1] - (y0 + y1) / 2));
  const within = () => {
    for (let k = 0; k < D.K; k++) {
      const edge = Math.max(pad / 2, radius(k) + 2);
      X[k] = Math.min(W - edge, Math.max(edge, X[k])); Y[k] = Math.min(H - edge, Math.max(edge, Y[k]));
    }
  };
  for (let round = 0; round < (D.K <= 400 ? 80 : 0); round++) {
    for (let i = 0; i < D.K; i++) for (let j = 0; j < i; j++) {
      const dx = X[i] - X[j] || 1e-3 * (i - j), dy = Y[i] - Y[j], gap = radius(i) + radius(j) + 2, far = Math.hypot(dx, dy);
      if (far >= gap) continue;
      const push = (gap - far) / far / 4;
      X[i] += push * dx; Y[i] += push * dy; X[j] -= push * dx; Y[j] -= push * dy;
    }
    within();
  }
  within();
  return [X, Y];
}
// A map of the width of its place; labels stand where they cover neither a circle nor each other, the largest topics first,
// and the nearer one looks, the more there are.  Wheel and buttons zoom, dragging moves.
function mapOf(W, H, buttons) {
  const pad = 44, most = Math.max(7, Math.min(30, W / 24, 0.27 * W / Math.sqrt(D.K))), radius = k => Math.max(2.5, most * Math.sqrt(Math.min(1.5, D.size[k] / D.largest)));
  const [X, Y] = places(W, H, pad, radius), bySize = Array.from({ length: D.K }, (_, k) => k).sort((a, b) => D.size[b] - D.size[a] || a - b);
  const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "map", role: "img", "aria-label": "Map of topics: similar ones lie near each other; the table lists them all" });
  const dots = new Array(D.K), view = { x: W / 2, y: H / 2, zoom: 1 };
  M.maps.push(dots);
  function paint() {
    const z = view.zoom, half = [W / 2 / z, H / 2 / z];
    view.x = Math.min(W - half[0], Math.max(half[0], view.x));
    view.y = Math.min(H - half[1], Math.max(half[1], view.y));
    const x = k => W / 2 + z * (X[k] - view.x), y = k => H / 2 + z * (Y[k] - view.y), r = k => radius(k) * Math.sqrt(z);
    const seen = bySize.filter(k => x(k) > -40 && x(k) < W + 40 && y(k) > -40 && y(k) < H + 40);
    clear(root);
    for (const k of seen) {
      dots[k] = svg("circle", {
        class: (k === S.topic ? "dot on" : "dot") + (KINDS[D.kinds[k]] ? " unlike" : ""), cx: x(k).toFixed(1), cy: y(k).toFixed(1), r: r(k).toFixed(1), css: { fill: colour(k) }, "data-topic": D.ids[k],
        onclick: () => go(`topic-${D.ids[k]}`),
        onpointermove: e => tip(e, `${D.ids[k]} ${nameOf(k)} (${percent(D.size[k])}): ${D.top[k].slice(0, 7).join(" ")}`),
        onpointerleave: e => tip(e, ""),
      });
      root.append(dots[k]);
    }
    const taken = seen.map(k => [x(k) - r(k), y(k) - r(k), x(k) + r(k), y(k) + r(k)]);
    const free = box => box[0] >= 2 && box[2] <= W - 2 && box[1] >= 2 && box[3] <= H - 2 && taken.every(b => b[2] <= box[0] || box[2] <= b[0] || b[3] <= box[1] || box[3] <= b[1]);
    let put = 0;
    for (let i = 0; i < Math.min(seen.length, 250) && put < 120; i++) {
      const k = seen[i], letters = [...D.names[k]], d = r(k) + 3;
      const spots = w => [[x(k) - w / 2, y(k) + d + 10], [x(k) - w / 2, y(k) - d], [x(k) + d, y(k) + 4], [x(k) - d - w, y(k) + 4], [x(k) + 0.7 * d, y(k) + d + 6], [x(k) - 0.7 * d - w, y(k) + d + 6], [x(k) + 0.7 * d, y(k) - d + 4], [x(k) - 0.7 * d - w, y(k) - d + 4]];
      let spot = null, text = "", w = 0;
      for (const most of [24, 11]) {
        text = letters.length > most ? letters.slice(0, most - 1).join("").replace(/[ ,]+$/, "") + "…" : D.names[k];
        w = 6.1 * [...text].length + 4;
        if ((spot = spots(w).find(([a, b]) => free([a, b - 10, a + w, b + 3])))) break;
      }
      if (!spot) continue;
      put++;
      taken.push([spot[0], spot[1] - 10, spot[0] + w, spot[1] + 3]);
      root.append(svg("text", { class: "halo", x: spot[0].toFixed(1), y: spot[1].toFixed(1), "aria-hidden": "true" }, text));
    }
  }
  const zoom = (by, x, y) => {
    const next = Math.min(12, Math.max(1, view.zoom * by)), grown = 1 / view.zoom - 1 / next;
    view.x += (x - W / 2) * grown;
    view.y += (y - H / 2) * grown;
    view.zoom = next;
    paint();
  };
  const at = e => { const b = root.getBoundingClientRect(); return [(e.clientX - b.left) * W / b.width, (e.clientY - b.top) * H / b.height]; };
  let grip = null;
  fill(root, {
    onpointerdown: e => { if (view.zoom > 1) grip = [...at(e), view.x, view.y]; },
    onpointermove: e => {
      if (!grip) return;
      const [x, y] = at(e);
      view.x = grip[2] - (x - grip[0]) / view.zoom;
      view.y = grip[3] - (y - grip[1]) / view.zoom;
      if (Math.hypot(x - grip[0], y - grip[1]) > 4) paint();
    },
    onpointerup: () => { grip = null; }, onpointerleave: () => { grip = null; },
  }, []);
  if (buttons) root.addEventListener("wheel", e => { e.preventDefault(); zoom(e.deltaY < 0 ? 1.25 : 0.8, ...at(e)); }, { passive: false });
  paint();
  const bar = el("div", { class: "bar" }, [["Zoom in", 1.5], ["Zoom out", 1 / 1.5]].map(([name, by]) => el("button", { type: "button", onclick: () => zoom(by, W / 2, H / 2) }, name)), el("button", { type: "button", onclick: () => zoom(0, W / 2, H / 2) }, "All"));
  return el("div", null, buttons ? bar : null, root);
}
const widthOf = most => Math.max(280, Math.min(most, innerWidth - 28));
function mapView() {
  const W = widthOf(760);
  return el("div", null, mapOf(W, W < 500 ? 520 : 560, true), el("p", { class: "soft" }, "Topics that use similar words lie near each other (classical scaling of Hellinger distances between their word distributions); the area is the share of tokens, the colour the branch of the tree. Topics far from the middle are drawn nearer than they are, circles are moved off each other, and two dimensions cannot show all distances: a topic's own page lists its nearest. Zoom in for more labels; dragging moves the map."));
}
function dim(parts) {
  for (const dots of M.maps) for (let k = 0; k < dots.length; k++) if (dots[k]) dots[k].classList.toggle("off", parts.length > 0 && T.rows[k] && T.rows[k].hidden);
}
