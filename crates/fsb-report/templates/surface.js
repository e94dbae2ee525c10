"use strict";
// One surface for all operations and sets: quadrilaterals between neighbouring cells, the farthest first.
(() => {
  const surface = document.getElementById("surface");
  const { operations, sets } = JSON.parse(surface.nextElementSibling.textContent);
  const redraw = () => window.fsbDraw(surface);
  const select = (label, names) => {
    const list = document.createElement("select");
    list.append(...names.map((name, place) => new Option(name, String(place))));
    list.addEventListener("change", redraw);
    const words = document.createElement("label");
    words.append(label, list);
    document.querySelector(".selectors").append(words);
    return list;
  };
  const operation = select("Operation", operations.map((item) => item.name));
  const set = select("Set", sets);

  // Cividis, which is readable with any colour vision.
  const SHADES = [[0, 34, 78], [59, 73, 108], [112, 113, 115], [165, 156, 116], [254, 232, 56]];
  const shade = (share) => {
    const at = Math.min(Math.max(share, 0), 1) * (SHADES.length - 1);
    const low = Math.min(Math.floor(at), SHADES.length - 2);
    const mixed = SHADES[low].map((value, part) => Math.round(value + (SHADES[low + 1][part] - value) * (at - low)));
    return `rgb(${mixed})`;
  };

  const { namespaceURI } = new DOMParser().parseFromString("<svg></svg>", "text/html").body.firstChild;
  const draw = (name, attributes, text) => {
    const item = document.createElementNS(namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) item.setAttribute(key, value);
    if (text !== undefined) item.textContent = text;
    return item;
  };
  const short = (value) => String(Number(value.toPrecision(4)));
  // The length of the box in files, records and values; the angles that dragging changes.
  const SIZE = [1.3, 1, 0.75];
  let [turn, tilt] = [0.7, 0.45];

  surface.fsbDrawn = (width, color) => {
    const room = Number(surface.dataset.height);
    const { unit, files, records, z } = operations[Number(operation.value)];
    const heights = z[Number(set.value)];
    const values = heights.flat().filter((value) => value !== null);
    const power = 10 ** Math.floor(Math.log10(Math.max(...values)));
    const step = [0.1, 0.2, 0.5, 1, 2].map((factor) => factor * power).find((size) => Math.max(...values) / size <= 6);
    const most = Math.ceil(Math.max(...values) / step) * step;
    const [sin, cos] = [Math.sin(turn), Math.cos(turn)];
    const flat = ([x, y, up]) => {
      const [a, b, c] = [(x - 0.5) * SIZE[0], (y - 0.5) * SIZE[1], (up - 0.5) * SIZE[2]];
      const far = a * sin + b * cos;
      return [a * cos - b * sin, -c * Math.cos(tilt) - far * Math.sin(tilt), far * Math.cos(tilt) - c * Math.sin(tilt)];
    };
    const corners = [0, 1].flatMap((x) => [0, 1].flatMap((y) => [0, 1].map((up) => flat([x, y, up]))));
    const [left, right] = [Math.min(...corners.map(([x]) => x)), Math.max(...corners.map(([x]) => x))];
    const [top, bottom] = [Math.min(...corners.map(([, y]) => y)), Math.max(...corners.map(([, y]) => y))];
    const margin = { side: 64, top: 34, bottom: 52 };
    const scale = Math.min((width - 2 * margin.side) / (right - left), (room - margin.top - margin.bottom) / (bottom - top));
    const height = margin.top + margin.bottom + (bottom - top) * scale;
    const at = (point) => {
      const [x, y] = flat(point);
      return [width / 2 + (x - (left + right) / 2) * scale, margin.top + (y - top) * scale];
    };
    const path = (points) => points.map(at).map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

    const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "font-size": 11, fill: color("--muted") });
    const grid = { stroke: color("--rule"), fill: "none" };
    const wall = { ...grid, fill: color("--soft") };
    // The walls behind the surface, and the edges before it, which carry the sizes.
    const [backX, backY] = [sin > 0 ? 1 : 0, cos > 0 ? 1 : 0];
    const [frontX, frontY] = [1 - backX, 1 - backY];
    picture.append(
      draw("polygon", { ...wall, points: path([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]) }),
      draw("polygon", { ...wall, points: path([[backX, 0, 0], [backX, 1, 0], [backX, 1, 1], [backX, 0, 1]]) }),
      draw("polygon", { ...wall, points: path([[0, backY, 0], [1, backY, 0], [1, backY, 1], [0, backY, 1]]) }),
    );
    const label = (point, text, attributes) => {
      const [x, y] = at(point);
      picture.append(draw("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": "middle", ...attributes }, text));
    };
    // Values beside the edge that is leftmost.
    const side = [[0, 0], [0, 1], [1, 0], [1, 1]].sort((one, other) => at([...one, 0])[0] - at([...other, 0])[0])[0];
    for (let value = 0; value <= most * 1.001; value += step) {
      const up = value / most;
      picture.append(draw("polyline", { ...grid, points: path([[backX, frontY, up], [backX, backY, up], [frontX, backY, up]]) }));
      label([...side, up], short(value), { "text-anchor": "end", dx: -6, dy: 4 });
    }
    const place = (index, sizes) => (sizes.length > 1 ? index / (sizes.length - 1) : 0.5);
    const ticks = (sizes, point, line) => {
      const every = Math.max(1, Math.ceil(sizes.length / 8));
      sizes.forEach((text, index) => {
        if (index % every) return;
        picture.append(draw("polyline", { ...grid, points: path(line(place(index, sizes))) }));
        label(point(place(index, sizes), 0.1), text, { dy: 4 });
      });
    };
    // Outside of the box, by a share of its length.
    const beyond = (front, by) => front + (front - 0.5) * 2 * by;
    const [filesAt, recordsAt] = [(x, by) => [x, beyond(frontY, by), 0], (y, by) => [beyond(frontX, by), y, 0]];
    ticks(files, filesAt, (x) => [[x, frontY, 0], [x, backY, 0], [x, backY, 1]]);
    ticks(records, recordsAt, (y) => [[frontX, y, 0], [backX, y, 0], [backX, y, 1]]);
    label(filesAt(0.5, 0.32), "file size", { fill: color("--ink") });
    label(recordsAt(0.5, 0.32), "record size", { fill: color("--ink") });

    const point = (file, record) => {
      const value = heights[record]?.[file];
      return value == null ? undefined : [place(file, files), place(record, records), value / most];
    };
    const faces = [];
    records.forEach((_, record) => files.forEach((_, file) => {
      const known = [[0, 0], [1, 0], [1, 1], [0, 1]].map(([x, y]) => point(file + x, record + y)).filter(Boolean);
      if (known.length > 2) faces.push(known);
    }));
    const mean = (face, part) => face.reduce((sum, corner) => sum + part(corner), 0) / face.length;
    faces.sort((one, other) => mean(other, (corner) => flat(corner)[2]) - mean(one, (corner) => flat(corner)[2]));
    for (const face of faces) {
      const fill = shade(mean(face, (corner) => corner[2]));
      picture.append(draw("polygon", { points: path(face), fill, stroke: color("--paper"), "stroke-width": 0.5 }));
    }
    records.forEach((size, record) => files.forEach((file, index) => {
      const known = point(index, record);
      if (!known) return;
      const [cx, cy] = at(known).map((value) => value.toFixed(1));
      const dot = draw("circle", { class: "cell", cx, cy, r: 6, fill: "transparent" });
      dot.append(draw("title", {}, `${file} file, ${size} records\n${short(heights[record][index])} ${unit}`));
      picture.append(dot);
    }));
    for (let share = 0; share < 1; share += 0.05) {
      picture.append(draw("rect", { x: 8 + share * 100, y: 4, width: 5.5, height: 8, fill: shade(share) }));
    }
    picture.append(draw("text", { x: 116, y: 12 }, `0 to ${short(most)} ${unit}`));
    surface.replaceChildren(picture);
  };

  surface.style.touchAction = "pan-y";
  surface.addEventListener("pointerdown", (down) => {
    const start = [turn, tilt];
    const move = (event) => {
      turn = start[0] + (event.clientX - down.clientX) / 150;
      tilt = Math.min(1.4, Math.max(0.1, start[1] + (event.clientY - down.clientY) / 200));
      redraw();
    };
    const end = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", end);
      window.removeEventListener("pointercancel", end);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
  });
})();
