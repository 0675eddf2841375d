// User input: selection, filter, keyboard navigation and scrolling.

window.addEventListener("error", (event) => {
  document.documentElement.dataset.error = event.message;
  $("trouble").hidden = false;
  $("trouble").textContent = "This page has a bug: " + event.message;
});

const run = read(JSON.parse($("data").textContent));
const view = {
  chosen: null, culprit: null, hidden: new Set(), words: [],
  isFolded: run.lanes.filter((lane) => lane.owner).length > 8 || innerWidth < 160 * run.lanes.length,
  toggleLane(lane) { lane.isShown = !lane.isShown; lay(); },
};
let scale = 1;

function lay() {
  const anchor = view.chosen;
  const before = anchor?.y;
  placeLanes(run, view.isFolded, Math.max(360, $("scroll").clientWidth * .52 - TIME_WIDTH));
  placeEvents(run, view);
  $("content").style.height = run.height + "px";
  $("content").style.minWidth = $("heads").style.minWidth = run.right + 360 + "px";
  $("fold").textContent = view.isFolded ? "watchers: folded" : "watchers: columns";
  $("fold").hidden = !run.lanes.some((lane) => lane.owner);
  const shown = run.items.filter((item) => item.event && item.kind !== "phase").length;
  const all = run.events.filter((event) => event.event !== "phase").length;
  $("matches").textContent = shown === all ? "" : `${shown} of ${all}`;
  drawHeads(run, view);
  if (anchor && before !== undefined && anchor.isShown) $("scroll").scrollTop += anchor.y - before;
  paint();
}

function paint() {
  const scroll = $("scroll");
  const isAll = view.isPrinting || address().has("all");
  const margin = 900;
  const from = isAll ? 0 : Math.max(0, scroll.scrollTop - margin);
  const to = isAll ? run.height : scroll.scrollTop + scroll.clientHeight + margin;
  draw(run, view, from, to);
  const phase = run.phases.findLast((it) => it.top <= scroll.scrollTop + 40);
  $("phase").textContent = phase?.text ?? "";
  scale = drawOverview(run);
}

/** Fragment of the address: `all`, `filter=..`, `event=..`. */
function address() {
  return new URLSearchParams(location.hash.slice(1));
}

function follow() {
  const wish = address();
  if (wish.has("filter")) filter(wish.get("filter"));
  const number = Number(wish.get("event") ?? NaN);
  const event = run.events.find((it) => it.number === number);
  if (event) choose(event, { isCentred: true });
  else paint();
}

let isPending = false;
function paintSoon() {
  if (isPending) return;
  isPending = true;
  requestAnimationFrame(() => { isPending = false; paint(); });
}

function choose(event, { isCentred = false } = {}) {
  view.chosen = event;
  if (event) {
    const scroll = $("scroll");
    const top = scroll.scrollTop, height = scroll.clientHeight - 46;
    if (isCentred) scroll.scrollTop = event.y - height / 2;
    else if (event.y < top + 30) scroll.scrollTop = event.y - 30;
    else if (event.y > top + height - 40) scroll.scrollTop = event.y - height + 40;
  }
  paint();
  describe(event);
}

const stops = () => run.items.filter((item) => item.event && item.kind !== "arrival" && item.kind !== "phase")
  .map((item) => item.event);

function step(by, isWanted = () => true) {
  const list = stops();
  if (list.length === 0) return;
  const here = view.chosen ? view.chosen.index : by > 0 ? -1 : Infinity;
  const next = by > 0
    ? list.find((event) => event.index > here && isWanted(event))
    : list.findLast((event) => event.index < here && isWanted(event));
  if (next) choose(next);
}

const isTrouble = (event) => event.event === "lost" || ["nack", "fault", "resource_error"].includes(event.sort);

function describe(event) {
  const detail = $("detail");
  detail.replaceChildren();
  if (!event) {
    detail.append(element("p", "empty", "Click an event, or walk with ↓ and ↑."));
    return;
  }
  const basis = event.sent ?? event;
  const heading = element("h2");
  const sort = element("span", "", SORTS_LONG[basis.sort] ?? SORTS[basis.sort] ?? basis.sort);
  sort.style.color = colour(basis.sort);
  heading.append(sort, element("span", "empty", "event " + event.number));
  const facts = element("dl");
  const fact = (key, value) => facts.append(element("dt", "", key), element("dd", "", value));
  if (basis.event === "send") {
    fact("from", basis.from);
    fact("to", basis.to);
    fact("sent", seconds(basis.at) + " s");
    if (!basis.end) fact("arrived", "never: the run was over");
    else if (basis.end.event === "lost") fact("lost", `${seconds(basis.end.at)} s, ${basis.end.why}`);
    else fact("arrived", `${seconds(basis.end.at)} s, ${span(basis.end.at - basis.at)} later`);
    fact("message", "m" + basis.message);
  } else {
    fact("at", seconds(event.at) + " s");
    if (event.lanes.length > 0) fact("where", event.lanes.map((lane) => lane.name).join(", "));
    if (event.extent === "begins") {
      const band = run.bands.find((it) => it.from === event);
      fact("until", band?.to ? `${seconds(band.to.at)} s, ${span(band.to.at - event.at)} later` : "the end of the run");
    }
  }
  detail.append(heading, facts, element("pre", "mono", basis.text));
  if (event === view.culprit) {
    const broken = element("pre", "broken", `✗ ${run.violation.invariant}: ${run.violation.rule}`);
    detail.append(broken, element("pre", "mono broken", run.violation.text));
  }
  if (basis.names?.length > 0) {
    const names = element("div", "names");
    for (const name of basis.names.slice(0, 200)) {
      const chip = element("button", "", name);
      chip.type = "button";
      chip.title = "Show only what mentions it";
      chip.addEventListener("click", () => filter(name));
      names.append(chip);
    }
    detail.append(element("h2", "", basis.names.length === 1 ? "Resource" : `${basis.names.length} resources`), names);
  }
  const steps = element("div", "steps");
  const button = (text, act) => {
    const it = element("button", "", text);
    it.type = "button";
    it.addEventListener("click", act);
    steps.append(it);
  };
  button("↑ previous", () => step(-1));
  button("↓ next", () => step(1));
  const isAkin = (other) => other.lanes.some((lane) => basis.lanes[0] === lane);
  if (basis.lanes.length > 0) {
    button("previous here", () => step(-1, isAkin));
    button("next here", () => step(1, isAkin));
  }
  detail.append(steps);
}

function filter(text) {
  $("filter").value = text;
  view.words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  lay();
}

function about() {
  const section = $("about");
  const options = element("div");
  const header = run.header;
  const lines = [`xds-sim ${header.sim}, xds-core ${header.core}`, `hash ${header.hash}`, ...header.options];
  if (header.tape) lines.push("tape " + header.tape);
  options.append(element("h2", "", "The run"));
  const pre = element("pre", "mono");
  pre.textContent = lines.map(seen).join("\n");
  options.append(pre);
  const keys = element("div");
  const table = element("table");
  for (const [key, what] of [["↓ j", "next event"], ["↑ k", "previous event"], ["n p", "next, previous trouble: NACK, fault, lost"],
    ["[ ]", "previous, next phase"], ["v", "the violation"], ["/", "filter"], ["Esc", "everything again"],
    ["w", "watchers in columns or folded"], ["t", "light or dark"]]) {
    const line = element("tr"), cell = element("td");
    for (const one of key.split(" ")) cell.append(element("kbd", "", one), " ");
    line.append(cell, element("td", "", what));
    table.append(line);
  }
  keys.append(element("h2", "", "Keys"), table);
  section.append(options, keys);
}

function legend() {
  const counts = {};
  for (const event of run.events) {
    if (event.event !== "deliver" && event.event !== "lost" && event.sort) counts[event.sort] = (counts[event.sort] ?? 0) + 1;
  }
  for (const sort of Object.keys(SORTS)) {
    if (!counts[sort]) continue;
    const chip = element("button", "chip");
    chip.type = "button";
    chip.style.setProperty("--colour", colour(sort));
    chip.setAttribute("aria-pressed", "true");
    chip.title = "Hide or show; with Shift only this";
    chip.dataset.sort = sort;
    chip.append(element("i"), element("span", "", SORTS_LONG[sort] ?? SORTS[sort]), element("span", "count", counts[sort]));
    chip.addEventListener("click", (click) => {
      const others = Object.keys(counts).filter((it) => it !== sort);
      if (click.shiftKey) view.hidden = new Set(others.every((it) => view.hidden.has(it)) ? [] : others);
      else if (!view.hidden.delete(sort)) view.hidden.add(sort);
      for (const it of $("legend").children) it.setAttribute("aria-pressed", String(!view.hidden.has(it.dataset.sort)));
      lay();
    });
    $("legend").append(chip);
  }
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  if (run.items) drawOverview(run);
}

const acts = {
  j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1),
  n: () => step(1, isTrouble), p: () => step(-1, isTrouble),
  "]": () => goToPhase(1), "[": () => goToPhase(-1),
  v: () => view.culprit && choose(view.culprit, { isCentred: true }),
  "/": () => $("filter").focus(),
  Escape: () => { $("filter").blur(); filter(""); },
  w: () => $("fold").click(), t: () => $("theme").click(), "?": () => $("more").click(),
};

function goToPhase(by) {
  const top = $("scroll").scrollTop;
  const next = by > 0 ? run.phases.find((it) => it.top > top + 1) : run.phases.findLast((it) => it.top < top - 1);
  if (next) $("scroll").scrollTop = next.top;
}

function start() {
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  theme(media.matches ? "dark" : "light");
  media.addEventListener("change", () => theme(media.matches ? "dark" : "light"));
  const { header, violation } = run;
  $("title").textContent = header.seed === null ? "a replayed run" : "seed " + header.seed;
  const last = run.events.at(-1);
  $("figures").textContent = last ? `${(last.number + 1).toLocaleString("en")} events in ${span(last.at)}` : "no events";
  const verdict = $("verdict");
  verdict.className = violation ? "bad" : "good";
  verdict.textContent = violation ? `✗ ${violation.invariant} at ${seconds(violation.at)} s` : "no violation";
  verdict.disabled = !violation;
  if (violation) verdict.title = seen(violation.rule);
  verdict.addEventListener("click", acts.v);
  legend();
  about();
  describe(null);
  lay();

  $("scroll").addEventListener("scroll", paintSoon, { passive: true });
  new ResizeObserver(lay).observe($("scroll"));
  $("filter").addEventListener("input", () => filter($("filter").value));
  $("fold").addEventListener("click", () => { view.isFolded = !view.isFolded; lay(); });
  $("more").addEventListener("click", () => { $("about").hidden = !$("about").hidden; });
  $("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  window.addEventListener("beforeprint", () => { view.isPrinting = true; paint(); });
  window.addEventListener("afterprint", () => { view.isPrinting = false; paint(); });
  $("rows").addEventListener("click", (click) => {
    const it = click.target.closest(".row");
    if (it) choose(run.events[Number(it.dataset.index)]);
  });
  const card = $("card");
  $("rows").addEventListener("mousemove", (move) => {
    const it = move.target.closest(".row");
    const text = it?.querySelector(".text");
    card.hidden = !text || text.scrollWidth <= text.clientWidth;
    if (card.hidden) return;
    card.textContent = text.textContent;
    card.style.left = Math.min(move.clientX + 14, innerWidth - 480) + "px";
    card.style.top = Math.min(move.clientY + 18, innerHeight - card.offsetHeight - 8) + "px";
  });
  $("rows").addEventListener("mouseleave", () => { card.hidden = true; });
  const overview = $("overview");
  const go = (mouse) => {
    $("scroll").scrollTop = mouse.offsetY / scale - $("scroll").clientHeight / 2;
  };
  overview.addEventListener("pointerdown", (mouse) => { overview.setPointerCapture(mouse.pointerId); go(mouse); });
  overview.addEventListener("pointermove", (mouse) => { if (mouse.buttons) go(mouse); });
  document.addEventListener("keydown", (key) => {
    if (key.ctrlKey || key.metaKey || key.altKey) return;
    if (key.target === $("filter") && key.key !== "Escape") return;
    const act = acts[key.key];
    if (!act) return;
    key.preventDefault();
    act();
  });

  if (view.culprit) choose(view.culprit, { isCentred: true });
  if (location.hash !== "") follow();
  window.addEventListener("hashchange", follow);
  $("scroll").focus({ preventScroll: true });
  document.documentElement.dataset.events = run.events.length;
  document.documentElement.dataset.ready = "yes";
}

start();
