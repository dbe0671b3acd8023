// The pictures of the page. A user's text never enters one: it stands beside, as text.

export const FAMILIES = ["epoch sat", "epoch next", "window sat", "window next"];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Each family differs in colour, in dashes and in marker.
const looks = () => [
  { colour: css("--two"), dash: "solid", symbol: "circle" },
  { colour: css("--three"), dash: "dash", symbol: "square" },
  { colour: css("--four"), dash: "solid", symbol: "diamond" },
  { colour: css("--soft"), dash: "dot", symbol: "triangle-up" },
];

const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false };

function layout(more) {
  const grid = { gridcolor: css("--line"), zerolinecolor: css("--line"), linecolor: css("--soft"),
    ticks: "inside", tickcolor: css("--soft"), automargin: true };
  const { xaxis, yaxis, ...rest } = more;
  for (const axis of [xaxis, yaxis]) if (axis.title) axis.title.standoff = 8;
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: css("--ink"), size: 12, family: "system-ui, sans-serif" },
    margin: { l: 58, r: 14, t: 14, b: 44 }, hovermode: "x unified",
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") } },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
    ...rest, xaxis: { ...grid, ...xaxis }, yaxis: { ...grid, ...yaxis },
  };
}

function draw(id, traces, more, label) {
  const place = typeof id === "string" ? document.getElementById(id) : id;
  place.setAttribute("aria-label", label);
  return window.Plotly.react(place, traces, layout(more), CONFIG);
}

const largest = (u) => u.reduce((a, b) => (b !== null && (a === null || b > a) ? b : a), null);

export function curves(all, now) {
  // After a batch that was not learnt there was no look; one that is not monitored leaves a gap.
  const rows = all.filter((row) => row.state === "learnt" || row.state === "unmonitored");
  const x = rows.map((row) => row.n);
  const traces = looks().map((look, i) => ({
    x, y: rows.map((row) => row.u[i]), name: FAMILIES[i], mode: "lines", connectgaps: false,
    line: { color: look.colour, dash: look.dash, width: 1.4 }, hovertemplate: "%{y:.2f}",
  }));
  traces.push({
    x, y: rows.map((row) => largest(row.u)), name: "largest", mode: "lines",
    line: { color: css("--one"), width: 2.4 }, hovertemplate: "%{y:.2f}",
  });
  const rang = now.alarms.filter((alarm) => x.length && alarm.batch >= x[0]);
  if (rang.length) {
    traces.push({
      x: rang.map((alarm) => alarm.batch), y: rang.map((alarm) => alarm.u), name: "alarm",
      mode: "markers", hovertemplate: "%{y:.2f}",
      marker: { symbol: "x", size: 10, color: css("--five") },
    });
  }
  const shapes = [];
  if (now.boundary !== null && x.length) {
    traces.push({
      x: [x[0], x[x.length - 1]], y: [now.boundary, now.boundary], name: "boundary",
      mode: "lines", line: { color: css("--five"), width: 2, dash: "dashdot" }, hoverinfo: "skip",
    });
  }
  if (now.since !== null) {
    shapes.push({ type: "line", x0: now.since, x1: now.since, yref: "paper", y0: 0, y1: 1,
      line: { color: css("--five"), width: 1, dash: "dot" } });
  }
  const top = now.highest === null ? "no u yet" : `largest u now ${now.highest.toFixed(2)}`;
  const bound = now.boundary === null ? "no boundary" : `boundary ${now.boundary.toFixed(2)}`;
  draw("u-chart", traces, { shapes, xaxis: { title: { text: "batch" }, zeroline: false },
    yaxis: { title: { text: "u" } } },
  `u of every family over ${rows.length} batches that were learnt; ${top}; ${bound}`);
}

export function widths(now) {
  const { sigma, u } = now.widths;
  const traces = looks().map((look, i) => ({
    x: sigma, y: u[i], name: FAMILIES[i], mode: "markers+lines", hovertemplate: "%{y:.2f}",
    line: { color: look.colour, dash: look.dash, width: 1 },
    marker: { color: look.colour, symbol: look.symbol, size: 9 },
  }));
  const shapes = now.boundary === null ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1,
    y0: now.boundary, y1: now.boundary,
    line: { color: css("--five"), width: 2, dash: "dashdot" } }];
  draw("width-chart", traces, { shapes, xaxis: { type: "category", title: { text: "width σ" } },
    yaxis: { title: { text: "u" } } }, `u of every family at ${sigma.length} widths`);
}

export function storage(rows, now) {
  const kept = now.storage;
  const x = rows.map((row) => row.n);
  const of = {
    all: rows.map((row) => kept.model * row.n + 8 * kept.columns * row.total),
    one: rows.map((row) => kept.model * row.n + 8 * kept.columns * row.total / row.n),
  };
  const flat = kept.strategies.sat;
  if (flat !== null) of["sat, next"] = rows.map(() => flat);
  const { scan } = kept.strategies;
  if (scan !== null) of.scan = rows.map(() => scan);
  const dashes = ["solid", "dash", "dashdot", "dot"];
  const colours = [css("--five"), css("--two"), css("--three"), css("--four")];
  const traces = Object.entries(of).map(([name, y], i) => ({
    x, y, name, mode: "lines", line: { color: colours[i], dash: dashes[i], width: 2.2 },
    hovertemplate: "%{y:.3s}B",
  }));
  draw("storage-chart", traces, { xaxis: { title: { text: "batch" }, zeroline: false },
    yaxis: { title: { text: "bytes to keep" }, type: "log", tickformat: "~s", ticksuffix: "B",
      dtick: 1 } },
  "bytes that each strategy has to keep, by batch");
}

// A step in each bin, drawn as a line that turns at every edge.
function steps(edges, values) {
  const x = [], y = [];
  values.forEach((value, i) => { x.push(edges[i], edges[i + 1]); y.push(value, value); });
  return { x, y };
}

export function ratios(found) {
  const place = document.getElementById("where");
  if (place.children.length !== found.columns.length) {
    place.replaceChildren(...found.columns.map(() => {
      const figure = document.createElement("figure");
      const chart = document.createElement("div");
      chart.className = "chart";
      chart.setAttribute("role", "img");
      figure.append(document.createElement("figcaption"), chart);
      return figure;
    }));
  }
  found.columns.forEach((column, i) => {
    const [caption, chart] = place.children[i].children;
    caption.textContent = column.column;
    draw(chart, [
      { ...steps(column.edges, column.now), name: "last batch", mode: "lines",
        line: { color: css("--four"), width: 1.4 }, hovertemplate: "%{y:.3g}" },
      { ...steps(column.edges, column.window), name: `last ${found.count}`, mode: "lines",
        line: { color: css("--three"), width: 2.6 }, hovertemplate: "%{y:.3g}" },
      // A curve and no shape, so that the axis makes room for it.
      { x: [column.edges[0], column.edges.at(-1)], y: [1, 1], mode: "lines", showlegend: false,
        hoverinfo: "skip", line: { color: css("--soft"), width: 1 } },
    ], { margin: { l: 50, r: 10, t: 8, b: 28 }, xaxis: { zeroline: false },
      yaxis: { title: { text: "exp F" }, zeroline: false } },
    `learnt ratio along ${column.column}, between ${Math.min(...column.window)} and `
      + `${Math.max(...column.window)} over the last ${found.count} batches`);
  });
}
