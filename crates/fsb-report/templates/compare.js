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

  // Tables as CSV. What stands small in a cell gets a column of its own; a size that heads several lines is repeated.
  const words = (node) => (node?.textContent ?? "").replace(/\s+/g, " ").trim().replaceAll("−", "-");
  // What a spreadsheet would take for a formula has an apostrophe before it; numbers and percentages stay.
  const textual = (text) => (/^'*[=+@-]/.test(text) && !/^[+-]\d[\d.]*( ?%)?$/.test(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const parts = (cell) => {
    const main = cell.querySelector(".main");
    return main ? [words(main), words(cell.querySelector(".letter")), words(cell.querySelector("small"))] : [words(cell)];
  };
  const bare = (head) => {
    const copy = head.cloneNode(true);
    copy.querySelectorAll(".mark").forEach((mark) => mark.remove());
    return words(copy);
  };
  const lines = (table) => {
    let held = [];
    return Array.from(table.tBodies).flatMap((body) => Array.from(body.rows)).map((row) => {
      const cells = Array.from(row.cells);
      if (cells[0].rowSpan > 1 || cells[0].scope === "rowgroup") held = [[bare(cells.shift())]];
      return [...held, ...cells.map((cell) => (cell.tagName === "TH" ? [bare(cell)] : parts(cell)))];
    });
  };
  window.fsbCsv = (table) => {
    const heads = Array.from(table.tHead.rows[0].cells, bare);
    const rows = lines(table);
    const kept = heads.map((_, column) =>
      [0, 1, 2].filter((part) => part === 0 || rows.some((row) => row[column]?.[part])),
    );
    const names = ["", " (letter)", " (detail)"];
    const head = heads.flatMap((text, column) => kept[column].map((part) => text + names[part]));
    const body = rows.map((row) => row.flatMap((cell, column) => (kept[column] ?? [0]).map((part) => cell[part] ?? "")));
    return [head, ...body].map((row) => row.map(textual).map(quoted).join(",") + "\r\n").join("");
  };
  const slug = (text) => text.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60);
  const save = (table, caption) => {
    const title = words(table.closest("section").querySelector("h2"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([window.fsbCsv(table)], { type: "text/csv" }));
    link.download = `${slug(`${title} ${caption}`)}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  for (const table of document.querySelectorAll("table")) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "csv", textContent: "CSV", title: "Save this table as CSV" });
    const caption = words(table.caption);
    button.addEventListener("click", () => save(table, caption));
    table.caption.firstElementChild.append(button);
  }
})();
