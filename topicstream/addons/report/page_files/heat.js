const H = { from: 0, to: 0 };
const LEAST = 8; // topics that zooming leaves
const SMALLEST = 7; // pixels of a name that can be read
function heatView() {
  if (!D.a.similar || D.K < 2) return el("p", { class: "note" }, D.K < 2 ? "One topic: nothing to compare." : "Too many topics for all pairs; a topic's own page lists its nearest.");
  H.canvas = el("canvas", { role: "img", "aria-label": "Heat map of the similarity of all pairs of topics, in the order of the tree" });
  H.tree = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" });
  H.range = el("span", { class: "count", role: "status" });
  H.names = el("div", { class: "names" });
  const zoom = f => { const mid = (H.from + H.to) / 2, half = Math.max(LEAST / 2, (H.to - H.from) * f / 2); show(Math.max(0, Math.round(mid - half)), Math.min(D.K, Math.round(mid + half))); };
  const pair = e => {
    const b = H.canvas.getBoundingClientRect(), n = H.to - H.from;
    const at = v => H.from + Math.max(0, Math.min(n - 1, Math.floor(v * n)));
    return [at((e.clientX - b.left) / b.width), at((e.clientY - b.top) / b.height)];
  };
  let start = null;
  fill(H.canvas, {
    onpointerdown: e => { start = pair(e); },
    onpointermove: e => {
      const [i, j] = pair(e).map(n => D.a.order[n]);
      tip(e, i === j ? `${D.ids[i]} ${D.names[i]}` : `${D.ids[j]} ${D.names[j]} – ${D.ids[i]} ${D.names[i]}: ${alike(i, j).toFixed(2)}`);
    },
    onpointerleave: e => { start = null; tip(e, ""); },
    onpointerup: e => {
      if (!start) return;
      const end = pair(e), [a, b] = [Math.min(start[0], end[0], start[1], end[1]), Math.max(start[0], end[0], start[1], end[1])];
      const still = Math.abs(end[0] - start[0]) + Math.abs(end[1] - start[1]) < 2;
      const chosen = start[1];
      start = null;
      if (still) go(`topic-${D.ids[D.a.order[chosen]]}`);
      else if (b - a >= 3) show(a, b + 1);
    },
    ondblclick: () => show(0, D.K),
  }, []);
  const button = (name, onclick) => el("button", { type: "button", onclick }, name);
  const buttons = D.K > LEAST ? [button("Zoom in", () => zoom(0.5)), button("Zoom out", () => zoom(2)), button("All", () => show(0, D.K))] : [];
  const box = el("div", null, el("div", { class: "bar" }, buttons, H.range),
  el("div", { class: "heat" }, H.tree, H.canvas, H.names),
  el("p", { class: "soft" }, "The stronger the colour, the more two topics share their words (Bhattacharyya coefficient). Drag to zoom in, click for a topic. The tree joins the nearest by Ward's linkage of Hellinger distances."));
  H.from = 0;
  H.to = D.K;
  return box;
}
function show(from, to) {
  H.from = from;
  H.to = to;
  const n = to - from;
  H.canvas.width = H.canvas.height = n;
  const context = H.canvas.getContext("2d"), image = context.createImageData(n, n);
  const css = getComputedStyle(document.documentElement), rgb = name => { const h = css.getPropertyValue(name).trim(); return [1, 3, 5].map(i => parseInt(h.length > 4 ? h.slice(i, i + 2) : h[(i + 1) / 2].repeat(2), 16)); };
  const low = rgb("--paper"), high = rgb("--accent");
  const count = new Float64Array(64);
  for (const q of D.a.similar) count[q]++;
  const quantile = share => { let seen = 0, q = 0; while (q < 63 && (seen += count[q]) < share * D.a.similar.length) q++; return q; };
  const weak = quantile(0.25), strong = Math.max(quantile(0.995), weak + 2);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
    const at = 4 * (i * n + j), q = 63 * Math.sqrt(alike(D.a.order[from + i], D.a.order[from + j]));
    const shade = Math.max(0, Math.min(1, (q - weak) / (strong - weak)));
    for (let c = 0; c < 3; c++) image.data[at + c] = low[c] + (high[c] - low[c]) * shade;
    image.data[at + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  H.range.textContent = n === D.K ? `${whole(D.K)} topics` : `topics ${from + 1} to ${to} of ${whole(D.K)} in the tree's order`;
  branches(from, to);
  clear(H.names);
  // a row lower than its name would shift the names away from their rows
  const size = Math.min(12, 0.8 * H.canvas.clientHeight / n);
  if (size < SMALLEST) H.range.textContent += "; zoom in for their names";
  else for (let i = from; i < to; i++) H.names.append(link(D.a.order[i]));
  H.names.style.fontSize = size + "px";
}
function branches(from, to) {
  const place = new Float64Array(2 * D.K - 1).fill(NaN), high = new Float64Array(2 * D.K - 1), top = D.a.treeHeight[D.K - 2] || 1;
  for (let i = 0; i < D.K; i++) place[D.a.order[i]] = i + 0.5;
  const y = v => 100 * (v - from) / (to - from), x = h => 98 * (1 - h / top) + 1;
  let path = "";
  for (let i = 0; i < D.K - 1; i++) {
    const a = D.a.treeLeft[i], b = D.a.treeRight[i], h = D.a.treeHeight[i];
    const [ya, yb] = [place[a], place[b]];
    place[D.K + i] = (ya + yb) / 2;
    high[D.K + i] = h;
    if (Math.max(ya, yb) < from || Math.min(ya, yb) > to) continue;
    path += `M${x(high[a]).toFixed(2)} ${y(ya).toFixed(2)}H${x(h).toFixed(2)}V${y(yb).toFixed(2)}H${x(high[b]).toFixed(2)}`;
  }
  clear(H.tree).append(svg("path", { class: "tree", d: path }));
}
