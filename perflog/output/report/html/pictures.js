"use strict";
// Plots that answer: values under the pointer, zoom and pan over all plots with the same axis, entries of the legend on
// and off, logarithmic axes, a copy as a picture. The plots are whole without this; data from logs is only ever text.
(() => {
  const WIDE = 10000, DEEP = 10, FINE = 1e8, STRIP = 20, SVG = "http://www.w3.org/2000/svg";
  const MOST_SHOWN = 8, MOST_LABELS = 120;

  const make = (name, attributes = {}, ...children) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const button = (text, title, act) => {
    const element = document.createElement("button");
    Object.assign(element, { type: "button", textContent: text, title });
    element.addEventListener("click", act);
    return element;
  };

  const unpack = (packed) => Array.isArray(packed) ? packed
    : Array.from({ length: packed.n }, (_, k) => packed.from + k * packed.by);
  const number = (value) => value === null ? "-" : Math.abs(value) >= 1e4 && Number.isInteger(value)
    ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
  // `step time (ms)` is the quantity `step time` in ms.
  const withUnit = (value, label) => `${number(value)} ${/\(([^()]+)\)$/.exec(label)?.[1] ?? ""}`.trim();
  // A time of an axis, in the unit that suits it.
  const TIMES = { h: 3600, min: 60, s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9 };
  const time = (value, label) => {
    const seconds = value * (TIMES[/\(([^()]+)\)$/.exec(label)?.[1]] ?? 1);
    const [unit, size] = Object.entries(TIMES).slice(2).find(([, one]) => Math.abs(seconds) >= one * (1 - 1e-9)) ?? ["ns", 1e-9];
    return `${number(seconds / size)} ${unit}`;
  };
  const quantity = (label) => label.replace(/ \([^()]+\)$/, "");

  const roundNumbers = (low, high, integer, most = 6) => {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * (1 - 1e-9));
    if (integer) step = Math.max(step, 1);
    const first = Math.ceil(low / step - 1e-9), ticks = [];
    for (let k = first; k * step <= high + step * 1e-9; k++) ticks.push(Number((k * step).toPrecision(12)));
    return ticks;
  };

  const tip = document.getElementById("tip") ?? document.createElement("div");
  if (!tip.id) {
    const holder = document.createElement("div");
    holder.className = "perflog";  // for the style, of which a notebook has no more
    tip.id = "tip";
    tip.setAttribute("role", "status");
    tip.hidden = true;
    holder.append(tip);
    document.body.append(holder);
  }

  const say = (lines, x, y) => {
    tip.replaceChildren(...lines.map((text) => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    }));
    tip.hidden = lines.length === 0;
    if (tip.hidden) return;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(Math.min(x + 14, innerWidth - width - 4), 4)}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
  };

  class Panel {
    constructor(figure, element, data) {
      this.figure = figure;
      this.data = data;
      this.svg = element.querySelector("svg.plot");
      this.curves = this.svg.querySelector(".curves");
      this.height = data.height;
      [this.xName, this.x0, this.x1] = data.x;
      [this.yName, this.y0, this.y1] = data.y;
      [this.logX, this.logY] = data.log;
      this.wasLogY = this.logY;
      this.axis = data.named || this.logX || !this.xName ? null : this.xName;
      this.view = [0, 1];
      this.series = Object.entries(data.series).map(([id, one]) => ({
        id, label: one.label, x: unpack(one.x), y: one.y, lines: one.lines && unpack(one.lines), each: one.each ?? 1,
        points: one.points ?? false, top: one.top ?? one.y,
        group: this.svg.querySelector(`[data-s="${id}"]`),
      }));
      for (const one of this.series) one.group?.classList.add("series");
      this.spans = Object.entries(data.spans?.tracks ?? {}).map(([id, { y, height, x, w: packed, n, e, s }]) => {
        let at = 0;
        const w = packed.map((value) => Math.floor(value / 10) * 10 ** (value % 10) * data.spans.unit);
        const begins = x.map((away) => (at += away) / FINE), length = this.x1 - this.x0;
        return { y, height, begins, w, n, e, s, ends: begins.map((begin, k) => begin + w[k] / length),
          path: this.svg.querySelector(`.spans [data-s="${id}"]`) };
      });
      this.labels = make("g", { class: "labels" });
      this.ticks = this.svg.querySelector("g.x");
      if (data.cells) for (const name of ["rows", "columns"]) data.cells[name] = unpack(data.cells[name]);
      this.printedTicks = [...this.ticks.children];
      this.yTicks = [...element.querySelectorAll("svg.y text, g.grid:not(.x) line")];
      // Places across are parts of the width: what they are without zoom.
      this.places = [...this.svg.querySelectorAll("[x$='%'], [cx$='%'], [x1$='%'], .bars rect, image, rect.span")].flatMap(
        (part) => ["x", "cx", "x1", "x2", "width"].filter((name) => part.getAttribute(name)?.endsWith("%")
          && !(name === "width" && !part.hasAttribute("x")))
          .map((name) => [part, name, parseFloat(part.getAttribute(name)) / 100]));
      for (const title of this.svg.querySelectorAll("title")) {
        title.parentElement.said = title.textContent;
        title.remove();
      }
      this.cursor = make("line", { class: "cursor", y2: this.height, visibility: "hidden" });
      this.brush = make("rect", { class: "brush", height: this.height, visibility: "hidden" });
      this.dots = make("g", { class: "found" });
      this.svg.append(this.labels, this.cursor, this.brush, this.dots);
      this.listen();
      this.drawSpans();
    }

    width() { return this.svg.getBoundingClientRect().width; }
    share(event) { return (event.clientX - this.svg.getBoundingClientRect().left) / this.width(); }
    valueAt(share) {  // of x, where the pointer is
      const part = this.view[0] + share * (this.view[1] - this.view[0]);
      return this.logX ? this.x0 * (this.x1 / this.x0) ** part : this.x0 + part * (this.x1 - this.x0);
    }
    partOf(x) {
      return this.logX ? Math.log(x / this.x0) / Math.log(this.x1 / this.x0) : (x - this.x0) / (this.x1 - this.x0);
    }
    seen(x) { return (this.partOf(x) - this.view[0]) / (this.view[1] - this.view[0]); }
    down(y) {
      const part = this.logY ? Math.log(y / this.y0) / Math.log(this.y1 / this.y0) : (y - this.y0) / (this.y1 - this.y0);
      return this.height * (1 - part);
    }

    listen() {
      const svg = this.svg;
      svg.tabIndex = 0;
      svg.setAttribute("role", "application");
      svg.setAttribute("aria-roledescription", "plot: arrows read its values, plus and minus zoom, 0 shows all");
      let from = null, panned = null;
      svg.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        from = this.share(event);
        panned = event.shiftKey ? [...this.view] : null;
        svg.setPointerCapture(event.pointerId);
        this.point(event);
      });
      svg.addEventListener("pointermove", (event) => {
        const at = this.share(event);
        if (from === null) return this.point(event);
        if (panned) return this.show(panned.map((end) => end - (at - from) * (panned[1] - panned[0])));
        const [left, right] = [from, at].sort((a, b) => a - b);
        this.brush.setAttribute("x", `${100 * left}%`);
        this.brush.setAttribute("width", `${100 * (right - left)}%`);
        this.brush.setAttribute("visibility", "visible");
      });
      const end = (event) => {
        const at = this.share(event);
        this.brush.setAttribute("visibility", "hidden");
        if (from !== null && !panned && event.type === "pointerup" && Math.abs(at - from) * this.width() > 5) {
          const [left, right] = [from, at].sort((a, b) => a - b), size = this.view[1] - this.view[0];
          this.show([this.view[0] + left * size, this.view[0] + right * size]);
        }
        from = panned = null;
      };
      svg.addEventListener("pointerup", end);
      svg.addEventListener("pointercancel", end);
      svg.addEventListener("pointerleave", () => { if (from === null) this.leave(); });
      svg.addEventListener("blur", () => this.leave());
      svg.addEventListener("dblclick", () => this.show([0, 1]));
      svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.shiftKey) return;
        event.preventDefault();
        this.zoom(2 ** ((event.deltaY || event.deltaX) / 200), this.share(event));
      }, { passive: false });
      svg.addEventListener("keydown", (event) => {
        const size = this.view[1] - this.view[0];
        const act = {
          "+": () => this.zoom(0.5, 0.5), "=": () => this.zoom(0.5, 0.5), "-": () => this.zoom(2, 0.5),
          0: () => this.show([0, 1]), Escape: () => this.show([0, 1]), Home: () => this.walk(-Infinity),
          End: () => this.walk(Infinity),
          ArrowLeft: () => event.shiftKey ? this.show(this.view.map((part) => part - size / 4)) : this.walk(-1),
          ArrowRight: () => event.shiftKey ? this.show(this.view.map((part) => part + size / 4)) : this.walk(1),
          ArrowUp: () => this.walk(0, -1), ArrowDown: () => this.walk(0, 1),
        }[event.key];
        if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        act();
      });
    }

    zoom(factor, around) {
      const size = this.view[1] - this.view[0], middle = this.view[0] + around * size;
      this.show([middle - around * size * factor, middle + (1 - around) * size * factor]);
    }

    // Zoom to a part of the axis, here and on all panels with the same axis.
    show([low, high]) {
      const size = Math.min(Math.max(high - low, 1e-5), 1);
      low = Math.min(Math.max(low, 0), 1 - size);
      this.view = [low, low + size];
      const all = size === 1, ends = [this.valueAt(0), this.valueAt(1)];
      this.redraw();
      for (const other of panels) {
        if (other === this || this.axis === null || other.axis !== this.axis) continue;
        other.view = all ? [0, 1] : ends.map((end) => other.partOf(end));
        other.redraw();
      }
      for (const one of new Set(panels.map((panel) => panel.figure))) {
        one.tell();
        one.askForDetail();
      }
      told(this);
    }

    redraw() {
      const [low, high] = this.view, size = high - low;
      const depth = this.curves.getAttribute("viewBox").split(" ")[3];
      this.curves.setAttribute("viewBox", `${low * WIDE} 0 ${size * WIDE} ${depth}`);
      for (const [part, name, place] of this.places) {
        const now = name === "width" ? place / size : (place - low) / size;
        part.setAttribute(name, `${100 * now}%`);
        if (name !== "width" && !part.matches("rect, image")) part.classList.toggle("outside", now < -0.002 || now > 1.002);
      }
      this.drawSpans();
      this.fit();
      if (this.data.named || this.logX || this.data.dates) return;
      if (size === 1) return this.ticks.replaceChildren(...this.printedTicks);
      const ticks = roundNumbers(this.valueAt(0), this.valueAt(1), this.data.integer);
      this.ticks.replaceChildren(...ticks.flatMap((value) => {
        const at = `${100 * this.seen(value)}%`;
        return [make("line", { x1: at, x2: at, y2: this.height }),
          make("text", { x: at, y: this.height + 14 }, value.toLocaleString("en", { maximumSignificantDigits: 6 }))];
      }));
    }

    // Texts that would leave the page move back into it, and numbers of ticks that would touch are left out.
    fit() {
      const box = this.svg.getBoundingClientRect();
      if (!box.width) return;
      for (const text of this.svg.querySelectorAll(".marks > text")) {
        text.printed ??= Number(text.getAttribute("dx") ?? 0);
        text.setAttribute("dx", text.printed);
        const { left, right } = text.getBoundingClientRect(), over = Math.max(right - box.right - 12, Math.min(left - box.left, 0));
        if (over && right > left) text.setAttribute("dx", text.printed - over);
      }
      let end = -Infinity;
      const names = [...this.ticks.querySelectorAll("text")].sort((a, b) => parseFloat(a.getAttribute("x")) - parseFloat(b.getAttribute("x")));
      for (const name of names) {
        name.classList.remove("off");
        const { left, right } = name.getBoundingClientRect();
        if (left < end + 4) name.classList.add("off"); else end = right;
      }
    }

    // --- spans ---

    // Those that are seen, each at least a pixel wide, without those whose pixels are taken; names where they fit.
    drawSpans() {
      const [low, high] = this.view, size = high - low, width = this.width();
      if (!this.spans.length || !width) return;
      const pixel = WIDE / width, wide = [];
      for (const one of this.spans) {
        const middle = Math.round(this.down(one.y) * DEEP);
        let d = `M0 ${middle}`, end = 0;
        for (let k = 0; k < one.begins.length; k++) {
          if (one.ends[k] < low || one.begins[k] > high) continue;
          const left = Math.max((one.begins[k] - low) / size * WIDE, end);
          const right = Math.min(Math.max((one.ends[k] - low) / size * WIDE, left + (left > end ? pixel : 0)), WIDE);
          if (right <= end + pixel / 2) continue;
          d += `M${left.toFixed(2)} ${middle}H${right.toFixed(2)}`;
          end = right;
          if (right - left > 50 * pixel && wide.length < MOST_LABELS) wide.push([one, k, left / WIDE, (right - left) / pixel]);
        }
        one.path.setAttribute("d", d);
      }
      this.labels.replaceChildren(...wide.filter(([one]) => !one.path.matches(".off")).map(([one, k, left, pixels]) => {
        const name = this.nameOf(one, k).replace(/^[^:]+: (?=.)/, ""), fits = Math.floor((pixels - 8) / 6.4);
        const color = one.path.getAttribute("stroke");
        const text = make("text", { x: `${100 * left}%`, dx: 4, y: this.down(one.y) + 4,
          ...(color === "currentColor" ? {} : { fill: /^#0/.test(color) ? "#ffffff" : "#000000" }) });
        text.textContent = name.length > fits ? `${name.slice(0, fits - 1)}…` : name;
        return text;
      }));
    }

    nameOf(one, k) { return this.data.spans.names[one.n[k]]; }

    // The span under the pointer, or the nearest one within some pixels.
    spanAt(x, down) {
      const part = this.partOf(x), reach = 4 * (this.view[1] - this.view[0]) / this.width();
      let least = reach, found = null;
      for (const one of this.spans) {
        if (one.path.matches(".off") || Math.abs(down - this.down(one.y)) > Math.abs(this.down(0) - this.down(one.height)) / 2) continue;
        for (let k = 0; k < one.begins.length; k++) {
          const away = Math.max(one.begins[k] - part, part - one.ends[k], 0);
          if (away < least || (away === 0 && found === null)) [least, found] = [away, [one, k]];
        }
      }
      return found;
    }

    ofSpan([one, k]) {
      const events = one.e?.[k] ?? 1;
      const begin = this.x0 + one.begins[k] * (this.x1 - this.x0);
      const row = (this.data.rows[one.y] ?? "").trim();
      const holds = events > 1 ? [`${number(events)} events, ${one.s[k]} % of the time of this kind`] : [];
      return [`${row}: ${time(one.w[k], this.xName)}`, this.nameOf(one, k), ...holds, `from ${Number(begin.toPrecision(7))} ${/\(([^()]+)\)$/.exec(this.xName)?.[1] ?? ""}`];
    }

    // --- values ---

    shown() { return this.series.filter((one) => !one.group || !one.group.closest(".off")); }

    nearest(one, x) {
      let best = -1;
      if (one.sorted === undefined) one.sorted = one.x.every((value, k) => k === 0 || one.x[k - 1] <= value);
      if (!one.sorted) {
        one.x.forEach((value, k) => { if (value !== null && (best < 0 || Math.abs(value - x) < Math.abs(one.x[best] - x))) best = k; });
        return best;
      }
      let low = 0, high = one.x.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (one.x[middle] < x) low = middle + 1; else high = middle;
      }
      return low > 0 && Math.abs(one.x[low - 1] - x) <= Math.abs(one.x[low] - x) ? low - 1 : low;
    }

    point(event) {
      const bar = event.target.said !== undefined ? event.target : null;
      const value = this.valueAt(this.share(event));
      const down = event.clientY - this.svg.getBoundingClientRect().top;
      const span = this.spans.length ? this.spanAt(value, down) : null;
      const lines = span ? this.ofSpan(span) : this.spans.length ? [] : bar ? this.ofBar(bar) : this.data.cells ? this.ofCell(value, down)
        : this.ofPoint(value, down) ?? this.ofSeries(value, down);
      if (this.spans.length || this.series.some((one) => !one.points)) mark(this, value); else unmark();
      say(lines, event.clientX, event.clientY);
    }

    leave() {
      unmark();
      say([]);
    }

    ofBar(bar) {
      const rows = Object.entries(this.data.rows ?? {});
      const middle = Number(bar.getAttribute("y")) + Number(bar.getAttribute("height")) / 2;
      rows.sort(([a], [b]) => Math.abs(this.down(Number(a)) - middle) - Math.abs(this.down(Number(b)) - middle));
      return [...(rows.length ? [rows[0][1].trim().split("\n")[0]] : []), `${bar.said} ${/\(([^()]+)\)$/.exec(this.xName)?.[1] ?? ""}`.trim()];
    }

    ofCell(x, down) {
      const { extent: [left, right, bottom, top], values, label, rows, columns } = this.data.cells;
      const y = this.y0 + (1 - down / this.height) * (this.y1 - this.y0);
      const row = Math.floor((y - top) / (bottom - top) * values.length);
      const column = Math.floor((x - left) / (right - left) * (values[0]?.length ?? 0));
      const value = values[row]?.[column];
      if (value === undefined) return [];
      const place = [[quantity(this.xName), columns[column]], [quantity(this.yName), rows[row]]];
      return [place.filter(([, name]) => name !== undefined).map((words) => words.join(" ")).join(", "),
        value === null ? "no value" : `${quantity(label)} ${withUnit(value, label)}`];
    }

    xSaid(x) {
      if (this.data.dates) return new Date(x * 1000).toISOString().slice(0, 16).replace("T", " ").replace(" 00:00", "");
      return `${quantity(this.xName)} ${withUnit(x, this.xName)}`;
    }

    // The point that is nearest to the pointer, of points without a line between them.
    ofPoint(x, down) {
      let least = 12, found = null;
      const left = this.seen(x) * this.width();
      for (const one of this.shown()) if (one.points) one.x.forEach((at, k) => {
        const away = Math.hypot(this.seen(at) * this.width() - left, this.down(one.y[k]) - down);
        if (away < least) [least, found] = [away, [one, k]];
      });
      if (!found) return null;
      const [one, k] = found, line = one.lines?.[k] != null ? [`line ${one.lines[k]}`] : [];
      const y = this.data.rows ? [] : [`${quantity(this.yName)} ${withUnit(one.y[k], this.yName)}`];
      return [...(one.label ? [one.label] : []), this.xSaid(one.x[k]), ...y, ...line];
    }

    ofSeries(x, down = 0) {
      const found = this.shown().filter((one) => !one.points).map((one) => [one, this.nearest(one, x)])
        .filter(([one, k]) => k >= 0 && one.y[k] !== null && (one.top === one.y || one.y[k] !== 0));
      if (!found.length) return [];
      const [first, at] = found.reduce((a, b) => Math.abs(a[0].x[a[1]] - x) <= Math.abs(b[0].x[b[1]] - x) ? a : b);
      const same = found.filter(([one, k]) => one.x[k] === first.x[at]);
      const away = ([one, k]) => Math.abs(this.down(one.top[k]) - down);
      if (same.length > MOST_SHOWN) same.sort((a, b) => away(a) - away(b));
      const lines = same.slice(0, MOST_SHOWN).map(([one, k]) => {
        const line = one.lines?.[k] != null ? `, line ${one.lines[k]}` : "";
        const each = one.each > 1 ? ` (extreme of ${one.each})` : "";
        return `${one.label}: ${withUnit(one.y[k], this.yName)}${each}${line}`;
      });
      if (same.length > MOST_SHOWN) lines.push(`${same.length - MOST_SHOWN} more`);
      return [this.xSaid(first.x[at]), ...lines];
    }

    mark(x) {
      const seen = this.seen(x);
      this.cursor.setAttribute("visibility", seen >= 0 && seen <= 1 ? "visible" : "hidden");
      for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, `${100 * seen}%`);
      this.dots.replaceChildren(...this.shown().filter((one) => !one.points).flatMap((one) => {
        const k = this.nearest(one, x), at = k < 0 || one.y[k] === null ? -1 : this.seen(one.x[k]), down = k < 0 ? -1 : this.down(one.top[k]);
        return at < 0 || at > 1 || down < 0 || down > this.height ? [] : [make("circle", { cx: `${100 * at}%`, cy: down, r: 3.5 })];
      }));
    }

    unmark() {
      this.cursor.setAttribute("visibility", "hidden");
      this.dots.replaceChildren();
    }

    // Read the values from the keyboard: the next place of a line, the next bar or cell.
    walk(by, rows = 0) {
      const box = this.svg.getBoundingClientRect();
      const tell = (lines, x, y) => say(lines, box.left + x * box.width, box.top + y);
      const cells = this.data.cells;
      if (cells) {
        const { values, extent: [left, right, bottom, top] } = cells;
        this.cell ??= [0, -1];
        this.cell = [Math.min(Math.max(this.cell[0] + rows, 0), values.length - 1), Math.min(Math.max(this.cell[1] + by, 0), values[0].length - 1)];
        const x = left + (this.cell[1] + 0.5) * (right - left) / values[0].length;
        const y = this.down(top + (this.cell[0] + 0.5) * (bottom - top) / values.length);
        return tell(this.ofCell(x, y), this.seen(x), y);
      }
      if (this.spans.length) {
        const tracks = [...new Set(this.spans.filter((one) => !one.path.matches(".off")).map((one) => one.y))].sort((a, b) => a - b);
        this.track = Math.min(Math.max((this.track ?? 0) + rows, 0), tracks.length - 1);
        const all = this.spans.filter((one) => one.y === tracks[this.track] && !one.path.matches(".off"))
          .flatMap((one) => one.begins.map((begin, k) => [begin, one, k])).sort((a, b) => a[0] - b[0]);
        if (!all.length) return;
        this.place = Math.min(Math.max((rows ? 0 : this.place ?? -1) + by, 0), all.length - 1);
        const [begin, one, k] = all[this.place], x = this.x0 + begin * (this.x1 - this.x0);
        if (this.seen(x) < 0 || this.seen(x) > 1) this.show(this.view.map((part) => part + begin - (this.view[0] + this.view[1]) / 2));
        mark(this, x);
        return tell(this.ofSpan([one, k]), this.seen(x), this.down(one.y));
      }
      const first = this.shown().find((one) => !one.points);
      if (first) {
        this.place = Math.min(Math.max((this.place ?? -1) + (by || rows), 0), first.x.length - 1);
        const x = first.x[this.place];
        if (this.seen(x) < 0 || this.seen(x) > 1) this.show(this.view.map((part) => part + this.partOf(x) - (this.view[0] + this.view[1]) / 2));
        mark(this, x);
        return tell(this.ofSeries(x), this.seen(x), this.height / 2);
      }
      const points = this.shown().flatMap((one) => one.x.map((x, k) => [x, one.y[k]])).filter(([x, y]) => x !== null && y !== null);
      if (points.length) {
        points.sort((a, b) => a[0] - b[0]);
        this.place = Math.min(Math.max((this.place ?? -1) + (by || rows), 0), points.length - 1);
        const [x, y] = points[this.place];
        return tell(this.ofPoint(x, this.down(y)) ?? [], this.seen(x), this.down(y));
      }
      const bars = [...this.svg.querySelectorAll(".bars rect")].filter((bar) => bar.said !== undefined && !bar.closest(".off"));
      if (!bars.length) return;
      this.place = Math.min(Math.max((this.place ?? -1) + (by || rows), 0), bars.length - 1);
      const bar = bars[this.place], there = bar.getBoundingClientRect();
      say(this.ofBar(bar), there.left, there.bottom - 10);
    }

    keepPrinted(one) {
      const d = ["path:not(.dots)", "path.dots"].map((path) => one.group?.querySelector(path)?.getAttribute("d"));
      one.printed ??= [...d, one.x, one.y, one.lines, one.each];
    }

    // The path of a line through its values, as they are now.
    drawLine(one) {
      const path = one.group?.querySelector("path:not(.dots)"), dots = one.group?.querySelector("path.dots");
      this.keepPrinted(one);
      const asPrinted = one.y === one.printed[3] && this.logY === this.wasLogY;
      const places = asPrinted ? [] : one.x.map((x, k) => one.y[k] === null || x === null ? null
        : [(this.partOf(x) * WIDE).toFixed(2), Math.round(this.down(one.y[k]) * DEEP)]);
      path?.setAttribute("d", asPrinted ? one.printed[0] : places.map((at, k) => at ? `${k && places[k - 1] ? "L" : "M"}${at[0]} ${at[1]}` : "").join(""));
      dots?.setAttribute("d", asPrinted ? one.printed[1] : places.map((at) => at ? `M${at[0]} ${at[1]}h0` : "").join(""));
    }

    // --- detail from a server ---

    // A zoomed curve of which the page holds extremes only: the server has each value.
    get isThin() { return this.series.some((one) => (one.printed?.[5] ?? one.each) > 1); }

    inDetail(series, window) {
      this.window = window;
      for (const one of this.series) {
        this.keepPrinted(one);
        if (one.printed[5] === 1) continue;
        const found = series?.[one.id];
        [one.x, one.y, one.lines, one.each] = found ? [unpack(found.x), found.y, found.lines && unpack(found.lines), found.each ?? 1]
          : one.printed.slice(2);
        one.top = one.y;
        one.sorted = undefined;
        this.drawLine(one);
      }
    }

    // --- logarithmic axis ---

    canBeLogarithmic() {
      return !this.wasLogY && this.series.length > 0 && !this.data.rows && !this.data.cells
        && this.series.every((one) => one.top === one.y && one.y.every((value) => value === null || value > 0));
    }

    logarithmic(on) {
      if (!this.canBeLogarithmic()) return;
      const values = this.series.flatMap((one) => (one.printed?.[3] ?? one.y).filter((value) => value !== null));
      const least = values.reduce((a, b) => Math.min(a, b)), most = values.reduce((a, b) => Math.max(a, b));
      [, this.y0, this.y1] = on ? [0, least / 1.1, most * 1.1] : this.data.y;
      this.logY = on;
      for (const one of this.series) this.drawLine(one);
      this.svg.classList.toggle("other-scale", on);  // what is no series is placed for the printed scale
      for (const part of this.yTicks) part.classList.toggle("off", on);
      this.svg.querySelector("g.log")?.remove();
      if (!on) return;
      const ticks = [1, 2, 5].flatMap((factor) => Array.from({ length: 40 }, (_, k) => factor * 10 ** (k - 20)))
        .filter((value) => value >= this.y0 && value <= this.y1).sort((a, b) => a - b);
      const few = ticks.length > 8 ? ticks.filter((value) => /^1(e|0*$)|^0\.0*1$/.test(String(value))) : ticks.length < 2
        ? roundNumbers(this.y0, this.y1, false, 4).filter((value) => value > 0) : ticks;
      this.svg.append(make("g", { class: "log grid" }, ...few.flatMap((value) => {
        const y = this.down(value);
        return [make("line", { x2: "100%", y1: y, y2: y }), make("text", { x: -6, y: y + 4, "text-anchor": "end" }, number(value))];
      })));
    }
  }

  class Figure {
    constructor(element) {
      this.element = element;
      const picture = element.querySelector(".picture");
      const data = JSON.parse(picture.querySelector("script").textContent);
      this.panels = [...picture.querySelectorAll(".panel")].map((panel, k) => new Panel(this, panel, data[k]));
      for (const entry of picture.querySelectorAll(".legend [data-k]")) this.switchable(entry);
      const bar = document.createElement("div");
      bar.className = "tools";
      this.all = button("Show all", "Show the whole axis (0)", () => this.panels[0].show([0, 1]));
      this.all.hidden = true;
      bar.append(this.all);
      if (this.panels.some((panel) => panel.canBeLogarithmic())) {
        const log = button("Log scale", "Logarithmic axis of values", () => {
          const on = log.getAttribute("aria-pressed") !== "true";
          log.setAttribute("aria-pressed", on);
          for (const panel of this.panels) panel.logarithmic(on);
        });
        log.setAttribute("aria-pressed", "false");
        bar.append(log);
      }
      const copied = button("Copy picture", "Copy as a picture (PNG); where that is not allowed, save it", () => this.copy(copied));
      bar.append(copied);
      const table = element.querySelector("figcaption a[href^='#']");
      if (table) bar.append(button("Table", "Show the numbers of this plot", () => table.click()));
      element.querySelector(".plot-title").after(bar);
    }

    tell() { this.all.hidden = this.panels.every((panel) => panel.view[0] === 0 && panel.view[1] === 1); }

    // Of a page from a server: the values of the steps that are seen, when the hand rests.
    askForDetail() {
      const address = document.body.dataset.detail;
      if (!address || !this.panels.some((panel) => panel.isThin)) return;
      const thin = this.panels.filter((panel) => panel.isThin), ends = thin[0].view.map((_, k) => thin[0].valueAt(k));
      for (const panel of thin) {
        if (panel.window && (panel.valueAt(0) < panel.window[0] || panel.valueAt(1) > panel.window[1])) panel.inDetail(null, null);
      }
      clearTimeout(this.asking);
      if (thin[0].view[0] === 0 && thin[0].view[1] === 1) return;
      this.asking = setTimeout(async () => {
        const answer = await fetch(`${address}&plot=${this.element.dataset.plot}&from=${ends[0]}&to=${ends[1]}`);
        if (!answer.ok) return;
        const series = await answer.json();
        if (ends.some((end, k) => end !== thin[0].valueAt(k))) return;  // zoomed on meanwhile
        this.panels.forEach((panel, k) => { if (panel.isThin) panel.inDetail(series[k], ends); });
        this.element.dispatchEvent(new CustomEvent("detail"));
      }, 150);
    }

    switchable(entry) {
      const toggle = button("", "Show or hide", () => {
        const on = toggle.getAttribute("aria-pressed") !== "true";
        toggle.setAttribute("aria-pressed", on);
        for (const part of this.element.querySelectorAll(`.plot [data-k="${entry.dataset.k}"]`)) part.classList.toggle("off", !on);
        for (const panel of this.panels) panel.drawSpans();
      });
      toggle.setAttribute("aria-pressed", "true");
      toggle.append(...entry.childNodes);
      entry.append(toggle);
    }

    // The figure as a picture: its elements with the page's styles, drawn by the browser itself.
    async copy(told) {
      const picture = this.element.querySelector(".picture"), { width, height } = picture.getBoundingClientRect();
      const said = told.textContent;
      try {
        const clone = picture.cloneNode(true);
        for (const script of clone.querySelectorAll("script")) script.remove();
        const title = document.createElement("p"), body = document.createElement("div"), style = document.createElement("style");
        title.className = "panel-title";
        title.textContent = this.element.querySelector(".plot-title").textContent;
        const dark = matchMedia("(prefers-color-scheme: dark)").matches;
        const colors = getComputedStyle(this.element);
        const names = ["ground", "raised", "ink", "faint", "line"].map((name) => `--${name}:${colors.getPropertyValue(`--${name}`)}`);
        const rules = this.element.closest(".perflog")?.querySelector("style").textContent
          ?? [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)).join("");
        style.textContent = `${rules}
          .copy { ${names.join(";")}; color-scheme: ${dark ? "dark" : "light"}; background: var(--ground); color: var(--ink);
          padding: 10px; font: 15px/1.5 system-ui, sans-serif }`;
        body.className = "copy perflog";
        body.append(title, clone);
        const holder = make("foreignObject", { width: width + 20, height: height + 50 }, style, body);
        const whole = make("svg", { width: width + 20, height: height + 50 }, holder);
        const image = new Image();
        image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(whole))}`;
        await image.decode();
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        const blob = await new Promise((done) => canvas.toBlob(done));
        try {
          await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
          told.textContent = "Copied";
        } catch {
          const save = document.createElement("a");
          save.href = canvas.toDataURL();
          save.download = `${title.textContent}.png`;
          save.click();
          told.textContent = "Saved";
        }
      } catch {
        told.textContent = "Not possible here";
      }
      setTimeout(() => { told.textContent = said; }, 2000);
    }
  }

  // All of the page: the outputs of a notebook have a script each.
  const panels = (window.perflogPanels ??= []);
  const mark = (from, x) => {
    for (const panel of panels) if (panel === from || (from.axis !== null && panel.axis === from.axis && (panel.series.length || panel.spans.length) && !panel.data.cells)) panel.mark(x);
  };
  const unmark = () => panels.forEach((panel) => panel.unmark());

  // Steps that are zoomed to are in the address, so that a link shows them: #steps=100-200.
  const STEPS = /(?:^#|&)steps=([\d.]+)-([\d.]+)/;
  const ownPage = document.querySelector("body > .page > main") !== null;  // not that of a notebook
  let telling = 0;
  const told = (panel) => {
    if (panel.axis !== "step" || !ownPage) return;
    clearTimeout(telling);
    telling = setTimeout(() => {  // browsers refuse an address that changes all the time
      const all = panel.view[0] === 0 && panel.view[1] === 1;
      const steps = [0, 1].map((end) => Math.max(Number(panel.valueAt(end).toPrecision(7)), 0)).join("-");
      if (!all || STEPS.test(location.hash)) history.replaceState(null, "", all ? location.pathname + location.search : `#steps=${steps}`);
    }, 200);
  };
  const followLink = () => {
    const asked = STEPS.exec(location.hash), panel = panels.find((one) => one.axis === "step");
    if (asked && panel) panel.show(asked.slice(1).map((step) => panel.partOf(Number(step))));
  };

  const sizes = new ResizeObserver((changed) => {
    for (const { target } of changed) {
      const panel = panels.find((one) => one.svg === target);
      panel?.drawSpans();
      panel?.fit();
    }
  });
  panels.splice(0, panels.length, ...panels.filter((panel) => panel.svg.isConnected));
  for (const element of document.querySelectorAll("figure:not(.live):has(> .picture)")) {
    element.classList.add("live");
    const figure = new Figure(element);
    panels.push(...figure.panels);
    for (const panel of figure.panels) sizes.observe(panel.svg);
  }
  if (ownPage) {
    followLink();
    window.addEventListener("hashchange", followLink);
  }
})();
