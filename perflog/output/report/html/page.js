"use strict";
(() => {
  const value = (row, at) => {
    const cell = row.cells[at], number = cell.dataset.value;
    return number === undefined ? cell.textContent : number === "" ? null : Number(number);
  };

  // Missing values stay last in both directions.
  const compare = (way) => ([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return way * (typeof a === "number" && typeof b === "number" ? a - b
      : String(a).localeCompare(String(b), undefined, { numeric: true }));
  };

  const sort = (head) => {
    const body = head.closest("table").tBodies[0];
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = Array.from(body.rows, (row) => [value(row, head.cellIndex), row]);
    rows.sort(compare(descending ? -1 : 1));
    body.append(...rows.map(([, row]) => row));
  };

  const FIGURE = "section[data-needs]:not([data-needs='']) td[data-value]:not([data-value=''])";

  // A click on a number opens a panel with its meaning and its source; the page holds all of it already.
  const panel = document.getElementById("source");
  const list = panel.querySelector("dl");
  let asked = null;

  const say = (name, ...what) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.append(...what);
    list.append(dt, dd);
  };

  const samples = (place, needs) => {
    const log = place && document.getElementById(place.hash.slice(1))?.closest("table");
    return log ? Array.from(log.tBodies[0].rows).filter((row) => needs.includes(row.dataset.table)).slice(0, 3) : [];
  };

  const close = () => {
    panel.hidden = true;
    asked?.focus();
    asked = null;
  };

  const show = (cell) => {
    const row = cell.parentElement, section = cell.closest("section");
    const head = row.closest("table").tHead.rows[0].cells[cell.cellIndex];
    const meaning = document.getElementById(head.dataset.of);
    const place = row.querySelector("a.lines");
    panel.querySelector("h2").textContent = `${head.textContent} = ${cell.textContent}`;
    list.replaceChildren();
    const words = Array.from(row.cells).filter((c) => c.dataset.value === undefined && !c.matches(".window, .text"));
    say("row", words.filter((c) => !c.contains(place)).map((c) => c.textContent).filter((t) => t !== "-").join(" · "));
    say("value", `${cell.dataset.value} ${meaning?.dataset.unit ?? ""}`);
    if (meaning) say("meaning", meaning.nextElementSibling.textContent);
    say("formula", section.querySelector(".formula").firstChild.textContent);
    if (row.querySelector(".window")?.textContent) say("window", row.querySelector(".window").textContent);
    if (place) say("lines", place.cloneNode(true));
    for (const sample of samples(place, section.dataset.needs.split(" "))) {
      const code = document.createElement("code");
      code.textContent = sample.querySelector(".line").textContent;
      say(`example, line ${sample.cells[0].textContent}`, code);
    }
    const all = document.createElement("a");
    all.href = `#${head.dataset.of}`;
    all.textContent = "definitions of all columns, source";
    say("more", all);
    panel.hidden = false;
    asked = cell;
  };

  // Links lead into folded parts, which open.
  const unfold = (target) => {
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target?.querySelector("details")?.setAttribute("open", "");
    target?.scrollIntoView();
  };
  const unfoldTarget = () => unfold(document.getElementById(location.hash.slice(1)));

  // What the filter looks through: the smallest parts of the details that say something by themselves.
  const sections = document.querySelectorAll("#details ~ section");
  const filter = document.getElementById("filter");
  // What a part says to a reader: of a plot its words, not the values that its script holds.
  const words = (part) => part.tagName !== "FIGURE" ? part.textContent
    : Array.from(part.querySelectorAll("h3, figcaption, .legend li, .panel-title, svg.y text"), (one) => one.textContent).join(" ");
  const narrow = () => {
    const text = filter.value.trim().toLowerCase();
    const says = (part) => words(part).toLowerCase().includes(text);
    for (const section of sections) {
      let matches = 0;
      for (const part of section.querySelectorAll("tbody tr, .finding, figure, dl > div")) {
        const card = part.parentElement.closest(".finding");
        const matching = says(part) || (card !== null && says(card.querySelector("h3")));
        part.classList.toggle("unmatched", !matching);
        matches += matching;
      }
      section.classList.toggle("unmatched", !matches);
      for (const fold of section.querySelectorAll("details"))
        fold.open = text !== "" && fold.querySelector(":is(tr, .finding, figure, div):not(.unmatched)") !== null;
    }
  };
  filter.addEventListener("input", narrow);
  window.addEventListener("hashchange", unfoldTarget);
  unfoldTarget();

  document.addEventListener("click", (event) => {
    const inPage = event.target.closest("a[href^='#']");
    if (inPage && inPage.hash === location.hash) unfoldTarget();
    const head = event.target.closest("table.sortable th");
    if (head) sort(head);
    if (event.target.closest("#source button")) close();
    const cell = event.target.closest(FIGURE);
    if (cell && !event.target.closest("a")) show(cell);
  });
  // Figures of a table are reached by the Tab key as soon as the table is open.
  document.addEventListener("toggle", (event) => {
    for (const cell of event.target.querySelectorAll(FIGURE)) cell.tabIndex = 0;
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) close();
    if (event.key === "Enter" && event.target.matches(FIGURE)) show(event.target);
  });
})();
