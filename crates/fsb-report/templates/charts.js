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

  const pen = document.createElement("canvas").getContext("2d");
  const wide = (texts) => Math.max(0, ...texts.map((text) => pen.measureText(text.replace("&lt;", "<")).width));

  // A label in as many lines as it takes.
  const lines = (text, room) =>
    text.split(" ").reduce((all, word) => {
      const last = all.split("<br>").pop();
      return !all ? word : wide([`${last} ${word}`]) > room ? `${all}<br>${word}` : `${all} ${word}`;
    }, "");

  // Of labels of ticks that would run into each other, some go, from zero outwards; names under marks, which belong
  // to each of them, go as a whole: the key above has them, too.
  const thin = (layout) => {
    pen.font = `12px ${layout.font.family}`;
    const { automargin, ticktext } = layout.yaxis ?? {};
    const beside = !automargin ? 0 : ticktext ? wide(ticktext) + 10 : 55;
    for (const key of Object.keys(layout).filter((name) => /^xaxis\d*$/.test(name))) {
      const axis = layout[key];
      if (!axis.ticktext || axis.tickvals.length < 2) continue;
      const log = (value) => (axis.type === "log" ? Math.log10(value) : value);
      const places = axis.tickvals.map(log);
      const [from, to] = axis.range ?? [Math.min(...places), Math.max(...places)];
      const [left, right] = axis.domain ?? [0, 1];
      const length = (layout.width - layout.margin.l - layout.margin.r - beside) * (right - left);
      const zero = Math.max(0, axis.tickvals.indexOf(0));
      const fits = (one, other) => {
        const room = (Math.abs(places[one] - places[other]) / Math.abs(to - from)) * length;
        return room > wide([axis.ticktext[one], axis.ticktext[other]]) + 6;
      };
      const outward = (ticks) => {
        let last = zero;
        return ticks.filter((tick) => fits(tick, last) && ((last = tick), true));
      };
      const all = places.map((_, tick) => tick);
      let kept = [...outward(all.slice(0, zero).reverse()).reverse(), zero, ...outward(all.slice(zero + 1))];
      if (key === "xaxis" && layout.xaxis2 && kept.length < all.length) kept = [];
      axis.tickvals = kept.map((tick) => axis.tickvals[tick]);
      axis.ticktext = kept.map((tick) => axis.ticktext[tick]);
    }
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
      if (key.startsWith("x")) axis.tickangle = 0;
      axis.fixedrange = true;
      axis.automargin = key.startsWith("y");
      axis.gridcolor = color("--grid");
      axis.linecolor = color("--rule");
      axis.zerolinecolor = color("--muted");
      axis.zerolinewidth = 1;
      if (axis.title) axis.title.standoff = 10;
      // Long labels beside a small chart would leave nothing of it: they go above their row instead.
      if (small && key === "yaxis" && axis.ticktext?.some((text) => text.length > 16)) {
        // Notes, for Plotly hides whatever labels within a chart come near to. Above all the marks of their row.
        axis.automargin = false;
        axis.showticklabels = false;
        layout.margin.l = 2;
        pen.font = `11px ${layout.font.family}`;
        layout.annotations = axis.ticktext.map((text, row) => ({
          text: lines(text, width - 30), xref: "paper", x: 0, xanchor: "left", yref: "y", y: axis.tickvals[row] - 0.36,
          yanchor: "bottom", align: "left", showarrow: false, borderpad: 0, font: { size: 11, color: color("--ink") },
        }));
        axis.range = [axis.range[0], Math.min(axis.range[1], -0.8)];
        // A second line takes room of its own.
        if (layout.annotations.some(({ text }) => text.includes("<br>"))) layout.height += 14 * layout.annotations.length;
      }
    }
    // Names below estimates need more of a small chart than trials in run order do.
    if (small && layout.xaxis2?.domain) {
      layout.xaxis.domain = [0, 0.48];
      layout.xaxis2.domain = [0.54, 1];
    }
    thin(layout);
    return { data, layout };
  };

  const width = (chart) => (printing ? paper : Math.max(chart.clientWidth, 240));
  const drawn = new Set();
  let printing = false;

  const draw = (chart) => {
    // The surface draws itself.
    if (chart.fsbDrawn) chart.fsbDrawn(width(chart), (name) => style().getPropertyValue(name).trim());
    else plot(chart);
    if (!drawn.has(chart)) {
      drawn.add(chart);
      window.fsbChartsDrawn = drawn.size;
      document.documentElement.dataset.chartsDrawn = String(drawn.size);
    }
  };
  const plot = (chart) => {
    const { data, layout } = figure(chart, width(chart));
    Plotly.newPlot(chart, data, layout, { displayModeBar: false, responsive: false, scrollZoom: false });
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
