"use strict";
(() => {
  const charts = Array.from(document.querySelectorAll(".chart"));
  const narrow = 560;
  // A4 less the margins of the print style, in CSS pixels.
  const paper = 640;
  const style = () => getComputedStyle(document.documentElement);

  // Figures name colours by style variable, with an opacity behind where they are not solid; put in what they are now.
  const painted = (value, colors) => {
    if (typeof value === "string") {
      const name = /^var\((--[a-z0-9]+)\)([0-9a-f]{2})?$/.exec(value);
      return name ? colors.getPropertyValue(name[1]).trim() + (name[2] ?? "") : value;
    }
    if (Array.isArray(value)) return value.map((item) => painted(item, colors));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item, colors)]));
    }
    return value;
  };

  const figure = (chart, width) => {
    const colors = style();
    // A chart that is chosen on the page makes its own figure.
    const made = chart.fsbFigure?.() ?? JSON.parse(chart.nextElementSibling.textContent);
    const { data, layout } = painted(made, colors);
    const color = (name) => colors.getPropertyValue(name).trim();
    const small = width < narrow;
    Object.assign(layout, {
      width,
      height: Number(chart.dataset.height),
      autosize: false,
      margin: { l: 12, r: 14, t: 8, b: 44, ...layout.margin },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      showlegend: false,
      dragmode: false,
      hovermode: "closest",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: color("--muted") },
      hoverlabel: { bgcolor: color("--paper"), bordercolor: color("--rule"), font: { color: color("--ink") }, align: "left" },
    });
    for (const key of Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name))) {
      const axis = layout[key];
      axis.fixedrange = true;
      axis.automargin = key.startsWith("y");
      axis.gridcolor = color("--grid");
      axis.linecolor = color("--rule");
      axis.zerolinecolor = color("--muted");
      axis.zerolinewidth = 1;
      if (axis.title) axis.title.standoff = 10;
      // Long labels beside a small chart would leave nothing of it: they go above their row instead.
      if (small && key === "yaxis" && axis.ticktext?.some((text) => text.length > 16)) {
        axis.automargin = false;
        axis.ticklabelposition = "inside top";
        axis.tickfont = { size: 11, color: color("--ink") };
        axis.ticklabelstandoff = 0;
        layout.margin.l = 2;
      }
    }
    return { data, layout };
  };

  const width = (chart) => (printing ? paper : Math.max(chart.clientWidth, 240));
  const drawn = new Set();
  let printing = false;

  const draw = (chart) => {
    const { data, layout } = figure(chart, width(chart));
    Plotly.newPlot(chart, data, layout, { displayModeBar: false, responsive: false, scrollZoom: false });
    if (!drawn.has(chart)) {
      drawn.add(chart);
      window.fsbChartsDrawn = drawn.size;
      document.documentElement.dataset.chartsDrawn = String(drawn.size);
    }
  };
  window.fsbDrawAll = () => charts.forEach(draw);
  window.fsbDraw = (chart) => drawn.has(chart) && draw(chart);

  // Drawn a little before they scroll into view; those that are in view from the start at once, without waiting for
  // the browser's first report, which a busy machine may put off.
  const ahead = 400;
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((item) => item.isIntersecting)) {
        seen.unobserve(entry.target);
        draw(entry.target);
      }
    },
    { rootMargin: `${ahead}px` },
  );
  for (const chart of charts) {
    if (chart.getBoundingClientRect().top < window.innerHeight + ahead) draw(chart);
    else seen.observe(chart);
  }

  let pending = 0;
  let last = window.innerWidth;
  window.addEventListener("resize", () => {
    if (printing || window.innerWidth === last) return;
    last = window.innerWidth;
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => drawn.forEach(draw));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(draw));

  const closed = new Set();
  window.addEventListener("beforeprint", () => {
    printing = true;
    document.documentElement.classList.add("printing");
    document.querySelectorAll("details:not([open])").forEach((item) => {
      closed.add(item);
      item.open = true;
    });
    charts.forEach(draw);
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    document.documentElement.classList.remove("printing");
    closed.forEach((item) => (item.open = false));
    closed.clear();
    drawn.forEach(draw);
  });

  // The contents follow the reader.
  const links = new Map(
    Array.from(document.querySelectorAll(".contents a")).map((link) => [link.getAttribute("href").slice(1), link]),
  );
  const reading = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((item) => item.isIntersecting)) {
        links.forEach((link) => link.removeAttribute("aria-current"));
        links.get(entry.target.id)?.setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "-10% 0px -80% 0px" },
  );
  document.querySelectorAll("main section").forEach((section) => reading.observe(section));
})();
