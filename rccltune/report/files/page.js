// Reads values off figures: by pointer, by touch and by keyboard. Without it the tables do.
"use strict";
document.querySelectorAll("svg.plot").forEach(function (plot) {
  const readout = plot.closest("figure").querySelector(".readout");
  const hint = "Point at a figure's markers, or tab to them and use the arrow keys, to read values.";
  const lines = [];
  plot.querySelectorAll("g.line[data-name]").forEach(function (line) {
    const spots = Array.from(line.querySelectorAll(".spot"));
    spots.forEach(function (spot) {
      const title = spot.querySelector("title");
      spot.setAttribute("role", "img");
      spot.setAttribute("aria-label", line.dataset.name + ", " + title.textContent);
      spot.setAttribute("tabindex", "-1");
      title.remove();
    });
    if (spots.length) { lines.push(spots); }
  });
  if (!lines.length) { return; }
  lines[0][0].setAttribute("tabindex", "0");
  readout.textContent = hint;

  // Above all lines, whichever one the point is of.
  const ring = document.createElementNS(plot.namespaceURI, "circle");
  ring.setAttribute("class", "ring");
  ring.setAttribute("r", "9");
  ring.setAttribute("aria-hidden", "true");
  plot.appendChild(ring);

  function show(spot) {
    readout.textContent = spot ? spot.getAttribute("aria-label") : hint;
    readout.classList.toggle("said", Boolean(spot));
    ring.classList.toggle("shown", Boolean(spot));
    if (spot) {
      const box = spot.getBBox();
      ring.setAttribute("cx", box.x + box.width / 2);
      ring.setAttribute("cy", box.y + box.height / 2);
    }
  }
  function middle(spot) {
    const box = spot.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  }
  function nearest(spots, x, y, reach) {
    let best = null;
    let least = reach * reach;
    spots.forEach(function (spot) {
      const at = middle(spot);
      const far = (at[0] - x) * (at[0] - x) + (y === null ? 0 : (at[1] - y) * (at[1] - y));
      if (far <= least) { best = spot; least = far; }
    });
    return best;
  }
  function beside(spot, key) {
    const number = lines.findIndex(function (spots) { return spots.includes(spot); });
    const spots = lines[number];
    const place = spots.indexOf(spot);
    switch (key) {
      case "ArrowRight": return spots[place + 1];
      case "ArrowLeft": return spots[place - 1];
      case "Home": return spots[0];
      case "End": return spots[spots.length - 1];
      case "ArrowUp": case "ArrowDown": {
        const other = lines[number + (key === "ArrowUp" ? -1 : 1)];
        return other && nearest(other, middle(spot)[0], null, Infinity);
      }
      default: return null;
    }
  }
  plot.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { show(null); return; }
    const next = event.target.classList.contains("spot") && beside(event.target, event.key);
    if (!next) { return; }
    event.preventDefault();
    plot.querySelectorAll(".spot[tabindex='0']").forEach(function (spot) { spot.setAttribute("tabindex", "-1"); });
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  plot.addEventListener("focusin", function (event) {
    if (event.target.classList.contains("spot")) { show(event.target); }
  });
  plot.addEventListener("focusout", function () { show(null); });
  ["pointermove", "pointerdown"].forEach(function (name) {
    plot.addEventListener(name, function (event) {
      show(nearest(lines.flat(), event.clientX, event.clientY, 28));
    });
  });
  plot.addEventListener("pointerleave", function (event) {
    if (event.pointerType === "mouse") { show(null); }
  });
});
// Paper folds nothing away.
let opened = [];
window.addEventListener("beforeprint", function () {
  opened = Array.from(document.querySelectorAll("details:not([open])"));
  opened.forEach(function (one) { one.open = true; });
});
window.addEventListener("afterprint", function () {
  opened.forEach(function (one) { one.open = false; });
});
