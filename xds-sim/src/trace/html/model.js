// Model of the run: lanes, messages and events with their positions.

const SORTS = {
  request: "request", ack: "ACK", nack: "NACK", response: "response", removal: "removal",
  resource_error: "error", transport: "transport", watch: "watch", notice: "notice", store: "store",
  timer: "timer", note: "note", fault: "fault",
};
const SORTS_LONG = { resource_error: "resource error" };
const TIME_WIDTH = 84;
const LARGE = 150, SMALL = 68;
const ROW = 24, ARRIVAL = 9, PHASE = 34, GAP = 26, CRIME = 92;
/** Length in pixels above which the arrival of a message has a label of its own. */
const FAR = 260;
/** Minimum idle time, in nanoseconds, at which the axis is folded. */
const FOLDED = 2e9;

function read(lines) {
  const run = { lanes: [], messages: new Map(), events: [], bands: [], violation: null, phases: [] };
  const lane = new Map();
  const open = new Map();
  const at = (name) => lane.get(name) ?? null;
  for (const line of lines) {
    if (line.event === "run") { run.header = line; continue; }
    if (line.event === "violation") { run.violation = line; continue; }
    if (line.event === "lane") {
      const it = { name: line.name, kind: line.kind, owner: at(line.owner), index: run.lanes.length, isShown: true };
      if (!lane.has(it.name)) lane.set(it.name, it);
      run.lanes.push(it);
      continue;
    }
    const event = { ...line, index: run.events.length, lanes: [] };
    run.events.push(event);
    if (line.event === "send") {
      event.lanes = [at(line.from), at(line.to)];
      event.end = null;
      run.messages.set(line.message, event);
    } else if (line.event === "deliver" || line.event === "lost") {
      const sent = run.messages.get(line.message);
      if (sent) {
        sent.end = event;
        event.sent = sent;
        event.lanes = [sent.lanes[1]];
        event.names = sent.names;
        event.sort = sent.sort;
      }
      event.text = line.event === "lost" ? "lost: " + line.why : "arrives";
    } else if (line.event === "local") {
      event.lanes = [at(line.lane)];
    } else if (line.event === "fault") {
      event.lanes = line.lanes.map(at);
      event.sort = "fault";
      const key = JSON.stringify([line.lanes, line.text]);
      if (line.extent === "begins") {
        const band = { lanes: event.lanes, from: event, to: null, text: line.text };
        run.bands.push(band);
        open.set(key, [...(open.get(key) ?? []), band]);
      } else if (line.extent === "ends") {
        const band = open.get(key)?.pop();
        if (band) { band.to = event; event.band = band; }
      }
    } else if (line.event === "phase") {
      run.phases.push(event);
      event.text = line.phase;
    }
    event.lanes = event.lanes.filter((it) => it !== null);
    event.haystack = [event.text, event.sort, ...(event.names ?? []), ...event.lanes.map((it) => it.name)]
      .filter((it) => it !== undefined).join("\n").toLowerCase();
  }
  return run;
}

/** Arranges the lanes: clients with their watchers, then servers with their stores. */
function placeLanes(run, isFolded, room) {
  const order = [];
  const owned = (owner, kind) => run.lanes.filter((it) => it.owner === owner && it.kind === kind);
  for (const it of run.lanes.filter((lane) => lane.kind === "client")) order.push(...owned(it, "watcher"), it);
  for (const it of run.lanes.filter((lane) => lane.kind === "server")) order.push(it, ...owned(it, "store"));
  order.push(...run.lanes.filter((lane) => !order.includes(lane)));
  const isSmall = (lane) => lane.kind === "watcher" || lane.kind === "store";
  const columns = order.filter((lane) => !(isFolded && isSmall(lane) && lane.owner));
  const wish = columns.reduce((sum, lane) => sum + (isSmall(lane) ? SMALL : LARGE), 0);
  const scale = Math.min(1, Math.max(room / wish, .42));
  let x = TIME_WIDTH;
  for (const lane of columns) {
    lane.width = (isSmall(lane) ? SMALL : LARGE) * scale;
    lane.x = x + lane.width / 2;
    x += lane.width;
  }
  for (const lane of order) if (!columns.includes(lane)) { lane.x = lane.owner.x; lane.width = 0; }
  run.columns = columns;
  run.right = x;
}

/** Whether an event passes the filter. */
function passes(event, view) {
  if (event.event === "phase") return true;
  if (view.culprit === event) return true;
  const basis = event.sent ?? event;
  if (view.hidden.has(basis.sort)) return false;
  const lanes = basis.lanes;
  if (lanes.length > 0 && !lanes.some((lane) => lane.isShown)) return false;
  if (event.event === "send" && !lanes.every((lane) => lane.isShown)) return false;
  return view.words.every((word) => basis.haystack.includes(word));
}

/** Assigns a vertical position to each visible event, which sets the height of the picture. */
function placeEvents(run, view) {
  let y = 8, last = null;
  run.items = [];
  view.culprit = run.violation ? culprit(run) : null;
  for (const event of run.events) {
    event.isShown = passes(event, view);
    if (!event.isShown) { event.y = y; continue; }
    const idle = last === null ? 0 : event.at - last.at;
    if (idle >= FOLDED) {
      run.items.push({ kind: "gap", y, height: GAP, idle });
      y += GAP;
    } else if (idle > 1e6) {
      y += Math.min(14, 2.2 * Math.log2(idle / 1e6));
    }
    event.isFar = event.event === "deliver" && event.sent?.isShown && y - event.sent.top > FAR;
    const isBrief = event.event === "deliver" && !event.isFar;
    const height = event.event === "phase" ? PHASE : isBrief ? ARRIVAL : ROW;
    event.isSame = last !== null && last.at === event.at && last.event !== "phase";
    event.top = y;
    event.y = y + height / 2;
    run.items.push({ kind: isBrief ? "arrival" : event.event, y, height, event });
    y += height;
    if (event === view.culprit) {
      run.items.push({ kind: "crime", y: y + 4, height: CRIME });
      y += CRIME + 12;
    }
    last = event;
  }
  run.height = y + 40;
}

/** The event after which the violation was detected, or the nearest one. */
function culprit(run) {
  return run.events.findLast((event) => event.number <= run.violation.number && event.event !== "deliver")
    ?? run.events[0] ?? null;
}

function seconds(nanos) {
  return (nanos / 1e9).toFixed(3);
}

function span(nanos) {
  if (nanos >= 1e9) return (nanos / 1e9).toFixed(nanos >= 1e10 ? 1 : 2) + " s";
  if (nanos >= 1e6) return (nanos / 1e6).toFixed(nanos >= 1e7 ? 0 : 1) + " ms";
  return Math.round(nanos / 1e3) + " µs";
}

/** Text with invisible characters escaped. */
function seen(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (it) => "\\u{" + it.codePointAt(0).toString(16) + "}");
}
