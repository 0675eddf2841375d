// Drawing of the visible part of the run. Text is inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

function element(tag, className, text) {
  const it = document.createElement(tag);
  if (className) it.className = className;
  if (text !== undefined) it.textContent = seen(text);
  return it;
}

function shape(tag, attributes) {
  const it = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) it.setAttribute(key, value);
  return it;
}

const colour = (sort) => sort === "fault" ? "var(--bad)" : `var(--${sort ?? "note"})`;

function drawHeads(run, view) {
  const heads = $("heads");
  heads.replaceChildren();
  const phase = element("span");
  phase.id = "phase";
  const time = element("span", "caption", "time");
  time.style.cssText = "left:14px;top:24px;width:58px;text-align:right";
  heads.append(phase, time);
  for (const lane of run.columns) {
    // Next to its client, a watcher is labelled without the client's name, to save space.
    const prefix = (lane.owner?.name ?? "") + "/";
    const label = lane.name.startsWith(prefix) ? lane.name.slice(prefix.length) : lane.name;
    const head = element("button", "head " + lane.kind, label);
    head.type = "button";
    head.title = seen(`${lane.kind} ${lane.name}: click to hide or show`);
    head.style.left = lane.x + "px";
    head.style.maxWidth = Math.max(lane.width - 4, 22) + "px";
    head.setAttribute("aria-pressed", String(lane.isShown));
    head.addEventListener("click", () => view.toggleLane(lane));
    heads.append(head);
  }
  const words = element("span", "caption", "what happens");
  words.style.left = run.right + 62 + "px";
  heads.append(words);
}

function draw(run, view, from, to) {
  const drawing = $("drawing"), rows = $("rows");
  const isSeen = (top, bottom) => bottom >= from && top <= to;
  drawing.style.top = from + "px";
  drawing.setAttribute("width", run.right + 20);
  drawing.setAttribute("height", Math.max(0, Math.min(to, run.height) - from));
  drawing.setAttribute("viewBox", `0 ${from} ${run.right + 20} ${Math.max(1, Math.min(to, run.height) - from)}`);
  const shapes = [hatch()];
  const list = [];

  run.phases.forEach((phase, index) => {
    const bottom = run.phases[index + 1]?.top ?? run.height;
    if (!isSeen(phase.top, bottom)) return;
    const band = element("div");
    band.style.cssText = `position:absolute;left:0;right:0;top:${phase.top}px;height:${bottom - phase.top}px;`
      + `background:var(--p${index % 5});border-top:1px solid var(--line);pointer-events:none`;
    list.push(band);
  });
  for (const band of run.bands) {
    const bottom = band.to?.y ?? run.height;
    if (!isSeen(band.from.y, bottom)) continue;
    for (const lane of band.lanes) {
      shapes.push(shape("rect", { x: lane.x - 13, y: band.from.y, width: 26, height: Math.max(4, bottom - band.from.y),
        rx: 6, fill: "url(#hatch)", stroke: "var(--bad)", "stroke-opacity": .35 }));
    }
  }
  for (const lane of run.columns) {
    shapes.push(shape("line", { x1: lane.x, x2: lane.x, y1: Math.max(0, from), y2: to, stroke: "var(--lane)",
      "stroke-width": lane.width > 40 ? 1.6 : 1, opacity: lane.isShown ? 1 : .4 }));
  }
  for (const sent of run.messages.values()) {
    const bottom = sent.end ? Math.max(sent.end.y, sent.y) : sent.y + 26;
    if (sent.isShown && isSeen(sent.y - 12, bottom + 12)) shapes.push(...arrow(sent, view));
  }
  for (const item of run.items) {
    if (!isSeen(item.y, item.y + item.height)) continue;
    if (item.kind === "gap") {
      shapes.push(...fold(run, item));
    } else if (item.kind === "phase") {
      const it = element("div", "phase");
      it.append(element("span", "", item.event.text));
      place(it, item);
      list.push(it);
    } else if (item.kind === "crime") {
      list.push(crime(run, item));
    } else {
      if (item.kind !== "arrival") list.push(row(run, view, item));
      if (item.kind === "local" || item.kind === "fault") shapes.push(...spots(item.event, view));
    }
  }
  drawing.replaceChildren(...shapes);
  rows.replaceChildren(...list);
}

function place(it, item) {
  it.style.top = item.y + "px";
  it.style.height = item.height + "px";
}

function row(run, view, item) {
  const event = item.event;
  const basis = event.sent ?? event;
  const it = element("div", "row");
  place(it, item);
  it.dataset.index = event.index;
  it.setAttribute("role", "option");
  it.id = "event-" + event.number;
  if (view.chosen === event) it.classList.add("chosen");
  else if (view.chosen && (view.chosen.sent ?? view.chosen) === basis) it.classList.add("akin");
  if (view.culprit === event) it.classList.add("culprit");
  if (event.end?.event === "lost") it.classList.add("failed");
  if (event.event === "deliver") it.classList.add("arrival");
  it.append(element("span", "time mono" + (event.isSame ? " same" : ""), seconds(event.at)));
  const words = element("div", "words");
  words.style.left = run.right + 8 + "px";
  const sort = element("span", "sort", event.event === "lost" ? "lost" : event.event === "deliver" ? "arrival" : SORTS[event.sort] ?? event.sort);
  sort.style.setProperty("--colour", colour(event.event === "lost" ? "fault" : event.sort));
  words.append(element("span", "number", event.number), sort, element("span", "who", who(event)));
  words.append(element("span", "text mono", event.event === "deliver" && event.sent ? event.sent.text : event.text));
  const fate = fateOf(event);
  if (fate) words.append(element("span", "who" + (event.end?.event === "lost" ? " fate" : ""), fate));
  it.append(words);
  return it;
}

function who(event) {
  if (event.event === "send") return event.from + " → " + event.to;
  if (event.sent) return event.sent.from + " → " + event.sent.to;
  if (event.event === "fault") return event.lanes.map((lane) => lane.name).join(", ");
  return event.lane ?? "";
}

function fateOf(event) {
  if (event.event === "deliver" && event.sent) return "after " + span(event.at - event.sent.at);
  if (event.event !== "send") return "";
  if (!event.end) return "under way at the end";
  if (event.end.event === "lost") return "lost after " + span(event.end.at - event.at);
  return event.end.at - event.at >= 1e9 ? "took " + span(event.end.at - event.at) : "";
}

/** A message: a line from its sender to its end. */
function arrow(sent, view) {
  const [a, b] = sent.lanes;
  if (!a || !b) return [];
  const isLost = sent.end?.event === "lost";
  const isChosen = view.chosen && (view.chosen.sent ?? view.chosen) === sent;
  const y1 = sent.y;
  const y2 = sent.end && sent.end.isShown ? sent.end.y : y1 + (sent.end ? 0 : 24);
  const reach = isLost ? .72 : sent.end ? 1 : .55;
  const right = b.x >= a.x ? 1 : -1;
  const start = shape("circle", { cx: a.x, cy: y1, r: 3.2, fill: colour(sent.sort), "data-message": sent.message });
  if (a.x === b.x) return [start];
  const x1 = a.x + 3 * right, x2 = a.x + (b.x - a.x) * reach - (isLost || !sent.end ? 0 : 4 * right);
  const stroke = colour(sent.sort);
  const width = (sent.sort === "response" || sent.sort === "nack" ? 2.2 : 1.6) + (isChosen ? 1.6 : 0);
  const line = { x1, y1, x2, y2: y2, stroke, "stroke-width": width, "stroke-linecap": "round" };
  if (isLost) line["stroke-dasharray"] = "6 4";
  if (!sent.end) line["stroke-dasharray"] = "1.5 4";
  const shapes = [];
  if (isChosen) shapes.push(shape("line", { ...line, stroke, "stroke-width": 9, opacity: .18 }));
  // A long arrow is drawn faintly, so that it does not hide the events below it.
  const opacity = isChosen || y2 - y1 < FAR ? 1 : .28;
  shapes.push(shape("line", { ...line, opacity }), start);
  if (isLost) {
    shapes.push(shape("path", { d: `M${x2 - 5},${y2 - 5}l10,10m0,-10l-10,10`, stroke: "var(--bad)", "stroke-width": 2.6,
      "stroke-linecap": "round" }));
  } else if (sent.end) {
    const angle = Math.atan2(y2 - y1, x2 - x1) * 180 / Math.PI;
    shapes.push(shape("path", { d: "M0,0L-9,-4.6L-7,0L-9,4.6Z", fill: stroke,
      transform: `translate(${x2 + 2 * right},${y2}) rotate(${angle})` }));
  }
  return shapes;
}

/** An event at one participant. */
function spots(event, view) {
  const isChosen = view.chosen === event;
  const fill = colour(event.sort);
  return event.lanes.flatMap((lane) => {
    const { x } = lane, { y } = event;
    const halo = isChosen ? [shape("circle", { cx: x, cy: y, r: 11, fill, opacity: .2 })] : [];
    const paper = "var(--paper)";
    switch (event.sort) {
      case "watch": return [...halo, shape("path", { d: `M${x},${y - 6}l6,6l-6,6l-6,-6Z`, fill })];
      case "notice": return [...halo, shape("path", { d: `M${x},${y - 6}l6,6l-6,6l-6,-6Z`, fill: paper, stroke: fill, "stroke-width": 2 })];
      case "store": return [...halo, shape("rect", { x: x - 5, y: y - 5, width: 10, height: 10, rx: 2, fill })];
      case "transport": return [...halo, shape("circle", { cx: x, cy: y, r: 4.6, fill: paper, stroke: fill, "stroke-width": 2 })];
      case "timer": return [...halo, shape("circle", { cx: x, cy: y, r: 5.4, fill: paper, stroke: fill, "stroke-width": 1.6 }),
        shape("path", { d: `M${x},${y - 3.4}V${y}H${x + 2.8}`, stroke: fill, "stroke-width": 1.4, fill: "none" })];
      case "fault": return [...halo, shape("path", { d: `M${x + 1.5},${y - 8}l-6,9h4l-1.5,7l6,-9h-4Z`, fill, stroke: paper, "stroke-width": .8 })];
      default: return [...halo, shape("circle", { cx: x, cy: y, r: 4.6, fill })];
    }
  });
}

/** The folded axis: the lanes are interrupted, with the length of the idle period. */
function fold(run, item) {
  const y = item.y + item.height / 2;
  const shapes = [];
  for (const lane of run.columns) {
    shapes.push(shape("rect", { x: lane.x - 2, y: y - 6, width: 4, height: 12, fill: "var(--paper)" }));
    shapes.push(shape("path", { d: `M${lane.x - 6},${y - 3}l4,-4l4,8l4,-4`, stroke: "var(--lane)", fill: "none", "stroke-width": 1.4 }));
  }
  const text = shape("text", { x: TIME_WIDTH - 12, y: y + 4, "text-anchor": "end", fill: "var(--soft)", "font-size": 11,
    "font-style": "italic" });
  text.textContent = "+" + span(item.idle);
  shapes.push(text);
  return shapes;
}

function crime(run, item) {
  const it = element("div", "crime");
  place(it, item);
  it.style.left = run.right + 8 + "px";
  it.style.right = "14px";
  const first = element("p");
  first.append(element("b", "", "✗ " + run.violation.invariant), " " + seen(run.violation.rule));
  it.append(first, element("p", "mono", run.violation.text));
  it.id = "violation";
  return it;
}

function hatch() {
  const defs = shape("defs", {});
  const pattern = shape("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(shape("rect", { width: 7, height: 7, fill: "var(--fault)", opacity: .45 }),
    shape("rect", { width: 2.4, height: 7, fill: "var(--fault)" }));
  defs.append(pattern);
  return defs;
}

/** An overview strip of the whole run that marks the visible part. */
function drawOverview(run) {
  const canvas = $("overview"), scroll = $("scroll");
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue("--" + name);
  const scale = Math.min(1, height / run.height);
  run.phases.forEach((phase, index) => {
    const bottom = run.phases[index + 1]?.top ?? run.height;
    pen.fillStyle = ink("p" + index % 5);
    pen.fillRect(0, phase.top * scale, width, (bottom - phase.top) * scale);
    pen.fillStyle = ink("lane");
    pen.fillRect(0, phase.top * scale, width, 1);
  });
  pen.fillStyle = ink("fault");
  for (const band of run.bands) {
    pen.fillRect(width - 7, band.from.y * scale, 5, Math.max(2, ((band.to?.y ?? run.height) - band.from.y) * scale));
  }
  for (const { kind, event } of run.items) {
    if (!event || kind === "arrival" || kind === "phase") continue;
    pen.fillStyle = event.sort === "fault" || kind === "lost" ? ink("bad") : ink(event.sort);
    pen.fillRect(5, event.y * scale, 13, Math.max(1, scale * 4));
  }
  const crimeItem = run.items.find((item) => item.kind === "crime");
  if (crimeItem) {
    pen.fillStyle = ink("bad");
    pen.fillRect(0, crimeItem.y * scale - 2, width, 4);
  }
  pen.strokeStyle = ink("soft");
  pen.lineWidth = 1.5;
  const top = Math.max(0, scroll.scrollTop - 46) * scale;
  pen.strokeRect(1, top + 1, width - 2, Math.max(10, scroll.clientHeight * scale - 2));
  return scale;
}
