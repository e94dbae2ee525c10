"use strict";

// Shows the state of the run as the server sends it. Without this script the page is loaded again every few seconds.
const events = new EventSource("live/events");
events.onmessage = (event) => {
  const texts = JSON.parse(event.data);
  if (!texts.is_running) {
    events.close();
    location.reload();
    return;
  }
  for (const place of document.querySelectorAll("[data-live]")) {
    const text = texts[place.dataset.live];
    if (place.textContent !== text) {
      place.textContent = text;
      place.hidden = text === "";
    }
  }
  const bar = document.getElementById("trials");
  bar.hidden = texts.of === 0;
  bar.max = Math.max(texts.of, 1);
  bar.value = texts.done;
};
