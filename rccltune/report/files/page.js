// Reads values off figures by pointer, touch and keyboard; shows parts of them. Without it the tables do.
"use strict";
const HINT = "Point at markers, or tab to them and use the arrow keys, to read values. Drag over a part, or spread two fingers on it, to see it larger.";

// Says what scrolls sideways, where it does.
document.querySelectorAll(".narrow").forEach(function (hint) {
  const wide = hint.nextElementSibling;
  new ResizeObserver(function () {
    hint.dataset.cut = wide.scrollWidth > wide.clientWidth;
  }).observe(wide);
});
document.querySelectorAll("svg.plot").forEach(function (plot) {
  const figure = plot.closest("figure");
  const readout = figure.querySelector(".readout");
  const [left, top, right, bottom] = plot.dataset.panel.split(" ").map(Number);
  const all = function (selector) { return Array.from(plot.querySelectorAll(selector)); };
  const lines = [];
  all("g.line[data-name]").forEach(function (line) {
    const spots = Array.from(line.querySelectorAll(".spot"));
    spots.forEach(function (spot) {
      const title = spot.querySelector("title");
      spot.setAttribute("role", "img");
      spot.setAttribute("aria-label", line.dataset.name + ", " + title.textContent);
      spot.setAttribute("tabindex", "-1");
      title.remove();
    });
    lines.push(spots);
  });
  if (!lines.length) { return; }
  // The one point that the tab key comes to.
  function enter(spot) {
    all(".spot[tabindex='0']").forEach(function (one) { one.setAttribute("tabindex", "-1"); });
    spot.setAttribute("tabindex", "0");
  }
  enter(lines[0][0]);
  readout.textContent = HINT;

  // What keeps its size and shape while the lines are stretched.
  const kept = all(".spot, .kept").map(function (one) {
    return [one].concat(one.getAttribute("transform").match(/-?[\d.]+/g).map(Number));
  });
  const places = new Map(kept.map(function (one) { return [one[0], one.slice(1)]; }));
  const make = function (name, of, inside) {
    const made = document.createElementNS(plot.namespaceURI, name);
    made.setAttribute("class", of);
    inside.appendChild(made);
    return made;
  };
  const front = make("g", "front", plot);
  front.setAttribute("aria-hidden", "true");
  const ring = make("circle", "ring", front);
  ring.setAttribute("r", "9");
  const frame = make("rect", "frame", front);
  const tip = make("g", "tip", front);
  const box = make("rect", "tipbox", tip);
  const words = make("text", "tiptext", tip);

  let view = [left, top, right, bottom];
  const x = function (at) { return left + (at - view[0]) * (right - left) / (view[2] - view[0]); };
  const y = function (at) { return top + (at - view[1]) * (bottom - top) / (view[3] - view[1]); };

  function show(spot) {
    readout.textContent = spot ? spot.getAttribute("aria-label") : HINT;
    readout.classList.toggle("said", Boolean(spot));
    front.classList.toggle("shown", Boolean(spot));
    if (!spot) { return; }
    last = spot;
    const at = places.get(spot);
    ring.setAttribute("cx", x(at[0]));
    ring.setAttribute("cy", y(at[1]));
    words.textContent = spot.getAttribute("aria-label");
    const wide = words.getComputedTextLength() + 12;
    const from = Math.max(2, Math.min(x(at[0]) + 14, 898 - wide));
    const over = y(at[1]) - 34 < 2 ? y(at[1]) + 14 : y(at[1]) - 34;
    tip.setAttribute("transform", "translate(" + from + " " + over + ")");
    box.setAttribute("width", wide);
    box.setAttribute("height", 22);
  }

  function look(next) {
    view = next || [left, top, right, bottom];
    const sx = (right - left) / (view[2] - view[0]);
    const sy = (bottom - top) / (view[3] - view[1]);
    const tx = left - view[0] * sx;
    all(".data").forEach(function (g) {
      g.setAttribute("transform", "matrix(" + [sx, 0, 0, sy, tx, top - view[1] * sy] + ")");
    });
    all(".across").forEach(function (g) { g.setAttribute("transform", "matrix(" + [sx, 0, 0, 1, tx, 0] + ")"); });
    kept.forEach(function (one) {
      const spot = one[0].classList.contains("spot");
      one[0].setAttribute("transform", "translate(" + one[1] + " " + one[2] + ") scale(" + 1 / sx + " " + (spot ? 1 / sy : 1) + ")");
    });
    plot.classList.toggle("zoomed", Boolean(next));
    [["x", x, left, right, 56], ["y", y, top, bottom, 18]].forEach(function (axis) {
      const shown = [];
      all(".tick." + axis[0]).forEach(function (tick) {
        const at = axis[1](Number(tick.dataset.at));
        const fine = tick.classList.contains("fine");
        const free = shown.every(function (other) { return Math.abs(other - at) > axis[4]; });
        const is = at > axis[2] - 1 && at < axis[3] + 1 && (fine ? next && free : !next || free);
        tick.classList.toggle("off", !is);
        tick.setAttribute("transform", "translate(" + (axis[0] === "x" ? [at, 0] : [0, at]) + ")");
        if (is) { shown.push(at); }
      });
    });
    wholeButton.hidden = !next;
    show(null);
  }
  // So large a part from this corner on, moved inside the panel; all of it where that is more.
  function lookAt(x0, y0, wide, tall) {
    if (wide >= right - left || tall >= bottom - top) { look(null); return; }
    if (wide < 6 || tall < 6) { return; }
    const cx = Math.min(Math.max(x0, left), right - wide);
    const cy = Math.min(Math.max(y0, top), bottom - tall);
    look([cx, cy, cx + wide, cy + tall]);
  }
  function around(at, factor) {
    const wide = (view[2] - view[0]) / factor;
    const tall = (view[3] - view[1]) / factor;
    lookAt(at[0] - wide / 2, at[1] - tall / 2, wide, tall);
  }

  // The legend's entries become buttons that hide their lines.
  figure.querySelectorAll(".legend li").forEach(function (entry) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.append(...entry.childNodes);
    entry.append(button);
    button.addEventListener("click", function () {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      all(".line").forEach(function (line) {
        if (line.dataset.key === entry.dataset.key) { line.classList.toggle("off", !on); }
      });
      if (seen().length) { enter(seen()[0][0]); }
      show(null);
    });
  });
  // One tap at a time does what a drag or two fingers do, around the point that was read last.
  let last = null;
  function closer(factor) {
    const spot = last;
    around(spot ? places.get(spot) : [(view[0] + view[2]) / 2, (view[1] + view[3]) / 2], factor);
    show(spot);
  }
  const buttons = document.createElement("div");
  buttons.className = "zoom";
  // Above the words, whose length changes: a button that moves is missed.
  readout.before(buttons);
  function button(name, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = name;
    made.addEventListener("click", act);
    buttons.append(made);
    return made;
  }
  button("Zoom in", function () { closer(2); });
  const wholeButton = button("Show the whole figure", function () { look(null); });
  wholeButton.hidden = true;

  function seen() {
    return lines.filter(function (spots) { return !spots[0].closest(".off"); });
  }
  function nearest(spots, at, reach, across) {
    let best = null;
    let least = reach * reach;
    spots.forEach(function (spot) {
      const place = places.get(spot);
      const dx = x(place[0]) - at[0];
      const dy = across ? 0 : y(place[1]) - at[1];
      if (dx * dx + dy * dy <= least) { best = spot; least = dx * dx + dy * dy; }
    });
    return best;
  }
  function beside(spot, key) {
    const shown = seen();
    const row = shown.findIndex(function (spots) { return spots.includes(spot); });
    if (row < 0) { return null; }
    const spots = shown[row];
    const place = spots.indexOf(spot);
    switch (key) {
      case "ArrowRight": return spots[place + 1];
      case "ArrowLeft": return spots[place - 1];
      case "Home": return spots[0];
      case "End": return spots[spots.length - 1];
      case "ArrowUp": case "ArrowDown": {
        const other = shown[row + (key === "ArrowUp" ? -1 : 1)];
        return other && nearest(other, [x(places.get(spot)[0]), 0], Infinity, true);
      }
      default: return null;
    }
  }
  plot.addEventListener("keydown", function (event) {
    const spot = event.target;
    if (event.key === "Escape") { look(null); return; }
    if (!places.has(spot)) { return; }
    if (event.key === "+" || event.key === "-") {
      closer(event.key === "+" ? 2 : 0.5);
      event.preventDefault();
      return;
    }
    const next = beside(spot, event.key);
    if (!next) { return; }
    event.preventDefault();
    enter(next);
    next.focus();
  });
  plot.addEventListener("focusin", function (event) {
    if (places.has(event.target)) { show(event.target); }
  });
  plot.addEventListener("focusout", function () { show(null); });

  let from = null;
  function place(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM().inverse());
    return [at.x, at.y];
  }
  function range(at) {
    const inside = function (v, low, high) { return Math.min(Math.max(v, low), high); };
    const xs = [from[0], at[0]].map(function (v) { return inside(v, left, right); });
    const ys = [from[1], at[1]].map(function (v) { return inside(v, top, bottom); });
    return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  }
  function drawn(part) {
    frame.setAttribute("x", part ? part[0] : 0);
    frame.setAttribute("y", part ? part[1] : 0);
    frame.setAttribute("width", part ? part[2] - part[0] : 0);
    frame.setAttribute("height", part ? part[3] - part[1] : 0);
  }
  plot.addEventListener("pointerdown", function (event) {
    const at = place(event);
    show(nearest(seen().flat(), at, 26));
    // A finger scrolls the page.
    if (event.pointerType === "mouse" && event.button === 0) { from = at; event.preventDefault(); }
  });
  plot.addEventListener("pointermove", function (event) {
    const at = place(event);
    if (from) { drawn(range(at)); } else { show(nearest(seen().flat(), at, 26)); }
  });
  window.addEventListener("pointerup", function (event) {
    if (!from) { return; }
    const part = range(place(event));
    from = null;
    drawn(null);
    if (part[2] - part[0] < 12 || part[3] - part[1] < 12) { return; }
    const back = function (v, a, b, low, high) { return low + (v - a) * (high - low) / (b - a); };
    look([
      back(part[0], left, right, view[0], view[2]), back(part[1], top, bottom, view[1], view[3]),
      back(part[2], left, right, view[0], view[2]), back(part[3], top, bottom, view[1], view[3]),
    ]);
  });
  // Two fingers stretch and move what is shown: what is below them stays there.
  let held = null;
  function fingers(event) {
    const at = Array.from(event.touches).map(place);
    const apart = Math.hypot(at[0][0] - at[1][0], at[0][1] - at[1][1]);
    return { at: [(at[0][0] + at[1][0]) / 2, (at[0][1] + at[1][1]) / 2], apart: Math.max(apart, 1) };
  }
  plot.addEventListener("touchstart", function (event) {
    held = event.touches.length === 2 ? { from: fingers(event), view: view } : null;
    if (held) { event.preventDefault(); }
  }, { passive: false });
  plot.addEventListener("touchmove", function (event) {
    if (!held || event.touches.length !== 2) { return; }
    event.preventDefault();
    const now = fingers(event);
    const [x0, y0, x1, y1] = held.view;
    const share = held.from.apart / now.apart;
    const over = [(held.from.at[0] - left) / (right - left), (held.from.at[1] - top) / (bottom - top)];
    const under = [(now.at[0] - left) / (right - left), (now.at[1] - top) / (bottom - top)];
    const wide = (x1 - x0) * share;
    const tall = (y1 - y0) * share;
    lookAt(x0 + over[0] * (x1 - x0) - under[0] * wide, y0 + over[1] * (y1 - y0) - under[1] * tall, wide, tall);
  }, { passive: false });
  plot.addEventListener("touchend", function () { held = null; });
  plot.addEventListener("pointerleave", function (event) {
    if (event.pointerType === "mouse" && !from) { show(null); }
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
