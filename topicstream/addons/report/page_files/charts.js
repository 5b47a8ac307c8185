function tip(event, text) {
  const box = $("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const x = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8), y = event.clientY + 16;
  box.style.left = Math.max(4, x) + "px";
  box.style.top = (y + box.offsetHeight > innerHeight ? event.clientY - box.offsetHeight - 10 : y) + "px";
}
function spark(value, known) {
  const n = value.length, top = value.reduce((m, v, i) => known(i) ? Math.max(m, v) : m, 0) || 1;
  let path = "", pen = "M";
  for (let i = 0; i < n; i++) {
    if (!known(i)) continue;
    path += pen + (n > 1 ? 1 + 82 * i / (n - 1) : 42).toFixed(1) + " " + (20 - 18 * value[i] / top).toFixed(1);
    pen = "L";
  }
  if (path && !path.includes("L")) path += "h2"; // a single period
  return svg("svg", { class: "spark", viewBox: "0 0 84 22", "aria-hidden": "true" }, svg("path", { d: path }));
}
function ticks(bottom, top, n) {
  const raw = (top - bottom) / n, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  const out = [];
  for (let v = Math.ceil(bottom / step - 1e-9) * step; v <= top + step * 1e-6; v += step) out.push(v || 0); // no -0
  return out;
}
// Names below an axis, as many as fit: each inside of the picture, none on the one before.
function axisNames(root, names, x, L, W, H) {
  let end = -Infinity;
  const step = Math.max(1, Math.floor(names.length / 8));
  names.forEach((name, i) => {
    const w = 6.6 * [...name].length, at = Math.max(2, Math.min(W - w - 2, x(i) - w / 2));
    if (i % step || at < end + 10) return;
    end = at + w;
    root.append(svg("text", { class: "s", x: at.toFixed(1), y: H - 6 }, name));
  });
}
// Lines of some series: [{name, value, known, docs}].
function lineChart({ names, series, format, title }) {
  const W = innerWidth < 600 ? 360 : 520, H = 190, L = 46, R = 10, T = 10, B = 24, n = names.length;
  const shown = series.map(s => ({ ...s, at: s.value.map((_, i) => i).filter(s.known) })).filter(s => s.at.length);
  if (!shown.length) return el("p", { class: "soft" }, "No values.");
  const top = Math.max(...shown.flatMap(s => s.at.map(i => s.value[i])), 1e-6) * 1.08, x = i => n > 1 ? L + (W - L - R) * i / (n - 1) : (L + W - R) / 2, y = v => T + (H - T - B) * (1 - v / top);
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  for (const t of ticks(0, top, 3)) root.append(svg("path", { class: "axis", d: `M${L} ${y(t)}H${W - R}` }), svg("text", { class: "s", x: L - 6, y: y(t) + 4, "text-anchor": "end" }, format(t)));
  axisNames(root, names, x, L, W, H);
  shown.forEach((s, c) => {
    root.append(svg("path", { class: "curve", css: { stroke: `var(--c${c})` }, d: s.at.map((i, j) => `${s.at[j - 1] === i - 1 ? "L" : "M"}${x(i).toFixed(1)} ${y(s.value[i]).toFixed(1)}`).join("") }));
    for (const i of s.at) root.append(svg("circle", { cx: x(i).toFixed(1), cy: y(s.value[i]).toFixed(1), r: 3, css: { fill: `var(--c${c})` }, onpointermove: e => tip(e, `${s.name}, ${names[i]}: ${format(s.value[i])} (${counted(s.docs(i), "document")})`), onpointerleave: e => tip(e, "") }));
  });
  return el("div", null, root, el("p", { class: "soft legend" }, shown.flatMap((s, c) => [el("span", { class: "key" }, el("i", { css: { background: `var(--c${c})` } }), bdi(s.name)), " "])));
}
// Runs of whole numbers that follow each other, of a list in ascending order.
function runs(list) {
  const out = [];
  for (const i of list) {
    if (out.length && out.at(-1).at(-1) === i - 1) out.at(-1).push(i);
    else out.push([i]);
  }
  return out;
}
// A curve with a band of intervals. names: labels of x; known(i): whether there is a value; reach: half of each interval, NaN
// where there is none; enough(i): whether it has enough documents for the curve.
function curve({ names, value, reach, known, enough, format, low, title, say }) {
  const W = innerWidth < 600 ? 360 : 520, H = 170, L = 46, R = 10, T = 10, B = 24;
  const on = value.map((_, i) => i).filter(i => known ? known(i) : Number.isFinite(value[i]));
  if (!on.length) return el("p", { class: "soft" }, "No values.");
  // a period of few documents is a faint dot, and one without an interval must not stretch the axis of those that have one
  const banded = reach ? on.filter(i => Number.isFinite(reach[i])) : [], many = enough ? on.filter(enough) : on;
  const up = i => value[i] + reach[i], down = i => value[i] - reach[i];
  let top = banded.length ? Math.max(...banded.map(up)) : Math.max(...(many.length ? many : on).map(i => value[i])), bottom = low ? Math.min(...on.map(i => value[i])) : 0;
  if (reach) top = Math.max(top, 1e-6) * 1.08;
  if (low) { const room = (top - bottom) * 0.1 || Math.abs(top) * 0.1 || 1; top += room; bottom = Math.max(0, bottom - room); }
  if (top <= bottom) top = bottom + 1;
  const n = names.length, x = i => n > 1 ? L + (W - L - R) * i / (n - 1) : (L + W - R) / 2;
  const y = v => T + (H - T - B) * (1 - (Math.min(Math.max(v, bottom), top) - bottom) / (top - bottom));
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  for (const t of ticks(bottom, top, 3)) {
    root.append(svg("path", { class: "axis", d: `M${L} ${y(t)}H${W - R}` }), svg("text", { class: "s", x: L - 6, y: y(t) + 4, "text-anchor": "end" }, format(t)));
  }
  axisNames(root, names, x, L, W, H);
  const line = (list, f) => list.map(i => `${x(i).toFixed(1)} ${y(f(i)).toFixed(1)}`).join("L");
  for (const run of runs(banded)) {
    if (run.length > 1) root.append(svg("path", { class: "band", d: `M${line(run, up)}L${line(run.slice().reverse(), down)}Z` }));
    else root.append(svg("path", { class: "curve", d: `M${line(run, down)}L${line(run, up)}` }));
  }
  const drawn = on.filter(i => banded.includes(i) || many.includes(i) && value[i] <= top);
  for (const run of runs(drawn)) {
    if (run.length > 1) root.append(svg("path", { class: "curve", d: "M" + line(run, i => value[i]) }));
    else root.append(svg("circle", { cx: x(run[0]), cy: y(value[run[0]]), r: 3, fill: "var(--accent)" }));
  }
  for (const i of on) if (!drawn.includes(i)) root.append(svg("circle", { class: "faint", cx: x(i), cy: y(value[i]), r: 2.5 }));
  const mark = svg("circle", { r: 4, fill: "var(--accent)", visibility: "hidden" });
  root.append(mark, svg("rect", {
    class: "hit", x: 0, y: 0, width: W, height: H,
    onpointermove: e => {
      const box = root.getBoundingClientRect(), at = (e.clientX - box.left) * W / box.width;
      const i = on.reduce((b, j) => Math.abs(x(j) - at) < Math.abs(x(b) - at) ? j : b, on[0]);
      mark.setAttribute("cx", x(i));
      mark.setAttribute("cy", y(value[i]));
      mark.setAttribute("visibility", "visible");
      tip(e, say ? say(i) : `${names[i]}: ${format(value[i])}`);
    },
    onpointerleave: e => { mark.setAttribute("visibility", "hidden"); tip(e, ""); },
  }));
  return root;
}
// Bars with whiskers of their intervals.
function bars(rows) {
  const top = Math.max(1e-9, ...rows.map(r => Math.min(r.value + (r.reach || 0), 2 * r.value + 1e-9)));
  const at = v => Math.max(0, Math.min(100, 100 * v / top));
  return el("table", { class: "groups" }, el("tbody", null, rows.map(r => el("tr", null,
    el("td", null, bdi(r.name)),
    el("td", null, el("div", { class: "track" }, el("i", { css: { width: at(r.value) + "%", opacity: Number.isFinite(r.reach) ? 1 : 0.45 } }), whisker(r, at))),
    el("td", { class: "n soft" }, percent(r.value) + plusMinus(r.reach))))));
}
function whisker(r, at) {
  if (!Number.isFinite(r.reach)) return null;
  const left = at(r.value - r.reach), right = at(r.value + r.reach);
  return el("u", { css: { left: left + "%", width: Math.max(0.5, right - left) + "%" } });
}
