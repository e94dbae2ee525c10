"use strict";
(() => {
  // Charts with several figures: one is shown, and a choice made once holds for the whole page.
  const choosers = Array.from(document.querySelectorAll(".choices"));
  for (const chooser of choosers) {
    const chart = chooser.parentElement.querySelector(".chart");
    let figures;
    chart.dataset.choice = "0";
    chart.fsbFigure = () => {
      figures ??= JSON.parse(chart.nextElementSibling.textContent);
      return figures[Number(chart.dataset.choice)];
    };
    chooser.addEventListener("click", (event) => {
      if (event.target instanceof HTMLButtonElement) choose(event.target.textContent);
    });
  }
  const choose = (name) => {
    for (const chooser of choosers) {
      const buttons = Array.from(chooser.children);
      const index = buttons.findIndex((button) => button.textContent === name);
      if (index < 0) continue;
      buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === index)));
      const chart = chooser.parentElement.querySelector(".chart");
      chart.dataset.choice = String(index);
      window.fsbDraw(chart);
    }
  };

  // One surface for all operations and sets.
  const surface = document.getElementById("surface");
  if (surface) {
    const { operations, sets } = JSON.parse(surface.nextElementSibling.textContent);
    const select = (label, names) => {
      const list = document.createElement("select");
      list.append(...names.map((name, place) => new Option(name, String(place))));
      list.addEventListener("change", () => window.fsbDraw(surface));
      const words = document.createElement("label");
      words.append(label, list);
      document.querySelector(".selectors").append(words);
      return list;
    };
    const operation = select("Operation", operations.map((item) => item.name));
    const set = select("Set", sets);
    const axis = (title, texts) => {
      const step = Math.max(1, Math.ceil(texts.length / 8));
      const shown = texts.map((text, place) => [place, text]).filter(([place]) => place % step === 0);
      return {
        title: { text: title }, tickvals: shown.map(([place]) => place), ticktext: shown.map(([, text]) => text),
        gridcolor: "var(--rule)", zeroline: false, backgroundcolor: "var(--soft)", showbackground: true,
      };
    };
    surface.fsbFigure = () => {
      const { unit, files, records, z } = operations[Number(operation.value)];
      const heights = z[Number(set.value)];
      const hover = heights.map((row, y) => row.map((value, x) => `${files[x]} file, ${records[y]} records`));
      return {
        data: [{
          type: "surface", z: heights, text: hover, colorscale: "Cividis", connectgaps: false,
          hovertemplate: `%{text}<br>%{z} ${unit}<extra></extra>`, colorbar: { thickness: 10, len: 0.6, title: { text: unit } },
        }],
        layout: {
          scene: {
            xaxis: axis("file size", files), yaxis: axis("record size", records),
            zaxis: { title: { text: unit }, gridcolor: "var(--rule)", rangemode: "tozero", backgroundcolor: "var(--soft)", showbackground: true },
            camera: surface.layout?.scene?.camera ?? { eye: { x: -1.3, y: -1.4, z: 0.75 }, center: { x: 0, y: 0, z: -0.2 } },
            dragmode: "turntable", aspectmode: "manual", aspectratio: { x: 1.3, y: 1, z: 0.75 },
          },
        },
      };
    };
  }
})();
