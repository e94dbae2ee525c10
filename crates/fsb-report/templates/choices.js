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
})();
