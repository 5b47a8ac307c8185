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
  return svg("svg", { class: "spark", viewBox: "0 0 84 22", "aria-hidden": "true" }, svg("path", { d: path }));
}
function ticks(bottom, top, n) {
  const raw = (top - bottom) / n, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  const out = [];
  for (let v = Math.ceil(bottom / step - 1e-9) * step; v <= top + step * 1e-6; v += step) out.push(v || 0); // no -0
  return out;
}
// A curve with a band of two standard errors. names: labels of x; known(i): whether there is a value.
function curve({ names, value, error, known, format, low, title, say }) {
  const W = innerWidth < 600 ? 360 : 520, H = 170, L = 46, R = 10, T = 10, B = 24;
  const on = value.map((_, i) => i).filter(i => known ? known(i) : Number.isFinite(value[i]));
  if (!on.length) return el("p", { class: "soft" }, "No values.");
  const up = i => value[i] + (error ? 2 * error[i] : 0);
  // a period of so few documents that nothing is known of it is a faint dot: it must not hide what is known of the others
  let sure = on;
  if (error) {
    const best = Math.max(...on.map(i => value[i] - 2 * error[i]), ...on.map(i => value[i]).sort((a, b) => a - b).slice(on.length >> 1, (on.length >> 1) + 1));
    sure = on.filter(i => 2 * error[i] <= 0.75 * best);
    if (sure.length < 2) sure = on;
  }
  let top = Math.max(...sure.map(up)), bottom = low ? Math.min(...on.map(i => value[i])) : 0;
  if (error) top = Math.max(top, 1e-6) * 1.08;
  if (low) { const room = (top - bottom) * 0.1 || Math.abs(top) * 0.1 || 1; top += room; bottom = Math.max(0, bottom - room); }
  if (top <= bottom) top = bottom + 1;
  const n = names.length, x = i => n > 1 ? L + (W - L - R) * i / (n - 1) : (L + W - R) / 2;
  const y = v => T + (H - T - B) * (1 - (Math.min(Math.max(v, bottom), top) - bottom) / (top - bottom));
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  for (const t of ticks(bottom, top, 3)) {
    root.append(svg("path", { class: "axis", d: `M${L} ${y(t)}H${W - R}` }), svg("text", { class: "s", x: L - 6, y: y(t) + 4, "text-anchor": "end" }, format(t)));
  }
  const every = Math.ceil(n / Math.max(1, Math.min(8, Math.floor((W - L - R) / (7 * Math.max(...names.map(t => t.length)) + 10)))));
  for (let i = 0; i < n; i += every) root.append(svg("text", { class: "s", x: x(i), y: H - 6, "text-anchor": n > 1 && i === 0 ? "start" : x(i) > W - 40 ? "end" : "middle" }, names[i]));
  const line = (list, f) => list.map(i => `${x(i).toFixed(1)} ${y(f(i)).toFixed(1)}`).join("L");
  if (error && sure.length > 1) root.append(svg("path", { class: "band", d: "M" + line(sure, up) + "L" + line(sure.slice().reverse(), i => value[i] - 2 * error[i]) + "Z" }));
  root.append(svg("path", { class: "curve", d: "M" + line(sure, i => value[i]) }));
  for (const i of on) if (!sure.includes(i)) root.append(svg("circle", { class: "faint", cx: x(i), cy: y(value[i]), r: 2.5 }));
  if (on.length === 1) root.append(svg("circle", { cx: x(on[0]), cy: y(value[on[0]]), r: 4, fill: "var(--accent)" }));
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
// Bars with whiskers of two standard errors.
function bars(rows) {
  const top = Math.max(1e-9, ...rows.map(r => Math.min(r.value + 2 * r.error, 2 * r.value + 1e-9)));
  const at = v => Math.max(0, Math.min(100, 100 * v / top));
  return el("table", { class: "groups" }, el("tbody", null, rows.map(r => el("tr", null,
    el("td", null, bdi(r.name)),
    el("td", null, el("div", { class: "track" }, el("i", { css: { width: at(r.value) + "%" } }), el("u", { css: { left: at(r.value - 2 * r.error) + "%", width: Math.max(0.5, at(r.value + 2 * r.error) - at(r.value - 2 * r.error)) + "%" } }))),
    el("td", { class: "n soft" }, `${percent(r.value)} ± ${percent(2 * r.error).replace(" %", "")}`)))));
}
