// Follows the runs: when their files have changed, the list is fetched again. What is chosen stays chosen.
"use strict";

const PAUSE = 3000; // ms between two looks

async function follow() {
  try {
    const state = await (await fetch("/state")).json();
    if (state.version !== document.body.dataset.version) await renew();
  } catch (error) {
    document.body.classList.add("gone"); // the server has ended
    return;
  }
  setTimeout(follow, PAUSE);
}

async function renew() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const chosen = new Set([...document.querySelectorAll("input[name=run]:checked")].map((box) => box.value));
  for (const box of page.querySelectorAll("input[name=run]")) box.toggleAttribute("checked", chosen.has(box.value));
  for (const part of ["header", "main"]) {
    document.querySelector(part).replaceWith(document.adoptNode(page.querySelector(part)));
  }
  document.body.dataset.version = page.body.dataset.version;
}

// A link to a run, such as /#run=a.json&steps=100-200: its report, zoomed to these steps.
const asked = new URLSearchParams(location.hash.slice(1));
if (asked.get("run")) {
  const steps = asked.get("steps");
  location.replace(`/run?${new URLSearchParams({ run: asked.get("run") })}${steps ? `#${new URLSearchParams({ steps })}` : ""}`);
}

if (document.body.dataset.version) setTimeout(follow, PAUSE);
