"use strict";
(() => {
  const content = JSON.parse(document.getElementById("charts").textContent);
  const root = document.documentElement;
  const narrow = window.matchMedia("screen and (max-width: 760px)");
  const places = [...document.querySelectorAll("[data-chart]")];
  const options = { mode: "vega-lite", renderer: "svg", actions: false, tooltip: { theme: "custom" } };
  let drawn = [];

  async function draw() {
    drawn.forEach(({ result }) => result.finalize());
    drawn = [];
    root.dataset.charts = "drawing";
    let failed = 0;
    for (const place of places) {
      const spec = content.specs[place.dataset.chart];
      const config = narrow.matches ? content.compact : content.wide;
      try {
        drawn.push({ place, result: await vegaEmbed(place, spec, { ...options, config }) });
      } catch (error) {
        failed += 1;
        place.classList.add("chart-error");
        place.textContent = `This chart could not be drawn: ${error.message}`;
        console.error(`chart ${place.dataset.chart}: ${error.message}`);
      }
    }
    root.dataset.charts = failed ? `${failed} failed` : `${places.length} drawn`;
  }

  function dark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }

  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
  });
  function fit() {
    drawn.forEach(({ place, result }) => result.view.signal("width", place.clientWidth).run());
  }

  // On paper all tables are open, and charts are as wide as the paper.
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((item) => { item.open = true; });
    root.dataset.paper = "";
    fit();
  });
  window.addEventListener("afterprint", () => {
    delete root.dataset.paper;
    fit();
  });
  narrow.addEventListener("change", draw);
  draw();
})();
