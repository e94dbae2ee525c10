"use strict";
(() => {
  // Tables as CSV. Small text in a cell gets its own column; a size that heads several lines is repeated.
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
    return Array.from(table.querySelectorAll("tbody tr, tfoot tr"), (row) => {
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
