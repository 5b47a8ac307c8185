const S = { topic: -1, view: "topics", lambda: 0.6 };
const VIEWS = [["topics", "Topics", topicsView], ["map", "Map", mapView], ["heat", "Heat map", heatView], ["time", "Time and groups", timeView], ["model", "Model", aboutView]];
const panes = {};
function open(name) {
  S.view = name;
  document.body.classList.toggle("elsewhere", name !== "topics");
  for (const [key, , make] of VIEWS) {
    if (!panes[key]) continue;
    const on = key === name;
    panes[key].tab.setAttribute("aria-selected", on);
    panes[key].tab.tabIndex = on ? 0 : -1;
    panes[key].box.hidden = !on;
    if (on && !panes[key].made) {
      panes[key].made = true;
      panes[key].box.append(make());
      if (S.topic >= 0) mark();
    }
  }
  if (name === "heat" && H.canvas) show(H.from, H.to);
}
function mark() {
  T.rows.forEach((tr, k) => tr && tr.classList.toggle("on", k === S.topic));
  for (const dots of M.maps) dots.forEach((dot, k) => dot && dot.classList.toggle("on", k === S.topic));
}
// The address says what is shown: #topic-17 is a topic's own page, #map a view. What the page itself asks for is shown
// at once; the browser's event comes later, and is for links, the address line and going back.
function go(name) {
  location.hash = name;
  route(false);
}
function route(first) {
  if (location.hash === S.hash) return;
  S.hash = location.hash;
  const hash = location.hash.slice(1), topic = /^topic-(\d+)$/.exec(hash);
  if (topic && D.at.has(+topic[1])) {
    S.topic = D.at.get(+topic[1]);
    topicPanel(S.topic);
    mark();
    document.title = `${D.names[S.topic]} – ${D.title}`;
    document.body.classList.add("reading");
    $("topic").scrollTop = 0;
    if (innerWidth <= 900) scrollTo(0, 0);
    const tr = T.rows[S.topic];
    if (tr && S.view === "topics" && innerWidth > 900) tr.scrollIntoView({ block: "nearest" });
    if (!first) $("topic").focus({ preventScroll: true });
  } else {
    document.title = D.title;
    document.body.classList.remove("reading");
    const view = VIEWS.find(v => v[0] === hash && panes[v[0]]);
    if (view) open(view[0]);
    if (S.topic < 0 || hash === "overview") { S.topic = -1; overviewPanel(); mark(); }
  }
}
function theme(next) {
  let chosen = "auto";
  try { chosen = localStorage.getItem("topics-theme") || "auto"; } catch (e) { chosen = theme.chosen || "auto"; }
  const order = ["auto", "light", "dark"];
  if (next) {
    chosen = order[(order.indexOf(chosen) + 1) % 3];
    try { localStorage.setItem("topics-theme", chosen); } catch (e) { theme.chosen = chosen; }
  }
  const dark = chosen === "dark" || chosen === "auto" && matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = { auto: "◐", light: "☀", dark: "☾" }[chosen];
  $("theme").setAttribute("aria-label", `Colours: ${chosen === "auto" ? "as the system" : chosen}`);
  if (S.view === "heat" && H.canvas) show(H.from, H.to);
}
function keys(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  if (e.key === "/") { e.preventDefault(); open("topics"); $("search").focus(); }
  else if (e.key === "j" || e.key === "n") step(1);
  else if (e.key === "k" || e.key === "p") step(-1);
  else if (e.key === "Escape") go(S.view);
}
async function main() {
  theme(false);
  try {
    await read();
  } catch (e) {
    $("failed").hidden = false;
    $("failed").textContent = `The data of this report cannot be read: ${e.message}`;
    return;
  }
  const facts = [allTopics()];
  if (D.docs) facts.push(counted(D.docs, "document"));
  if (D.periods.length) facts.push(`${D.periods[0]} to ${D.periods[D.periods.length - 1]}`);
  if (D.heldout) facts.push(`held-out perplexity ${whole(D.heldout.perplexity)}`);
  $("facts").textContent = facts.join(" · ");
  for (const [key, name] of VIEWS) {
    if (key === "time" && !D.a.over && !D.columns.length) continue;
    const box = el("section", { id: "view-" + key, role: "tabpanel", "aria-label": name, hidden: true });
    const tab = el("button", { type: "button", role: "tab", "aria-controls": "view-" + key, onclick: () => { go(key); open(key); } }, name);
    panes[key] = { box, tab, made: false };
    $("tabs").append(tab);
    $("views").append(box);
  }
  $("tabs").addEventListener("keydown", e => {
    const tabs = [...$("tabs").children], at = tabs.indexOf(document.activeElement), by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (by && at >= 0) { const next = tabs[(at + by + tabs.length) % tabs.length]; next.focus(); next.click(); }
  });
  $("theme").addEventListener("click", () => theme(true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(false));
  addEventListener("hashchange", () => route(false));
  addEventListener("keydown", keys);
  addEventListener("beforeprint", all);
  const header = document.querySelector("header"), fit = () => document.documentElement.style.setProperty("--top", innerWidth > 900 ? header.offsetHeight + "px" : "0px");
  addEventListener("resize", fit);
  fit();
  open("topics");
  route(true);
  document.documentElement.dataset.ready = Math.round(performance.now());
}
main();
