// Optional comforts: every link and form also works without this file.
"use strict";

// A page from the browser's back/forward cache contains an old turn number, so load it again.
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// Ignore a double click. The turn number already makes the second request harmless; this only saves it.
addEventListener("submit", (event) => {
  if (event.target.id === "controls") return;
  if (event.target.dataset.sent) { event.preventDefault(); return; }
  event.target.dataset.sent = "yes";
  setTimeout(() => delete event.target.dataset.sent, 4000);
});

const rows = () => [...document.querySelectorAll("table.list tbody tr, ol.letters > li, ol.events > li")];
let row = -1;  // the chosen row of the list

function choose(next) {
  const all = rows();
  if (!all.length) return;
  all[row]?.classList.remove("chosen");
  row = Math.max(0, Math.min(all.length - 1, next));
  all[row].classList.add("chosen");
  all[row].scrollIntoView({ block: "nearest" });
}

// A call is a step of the player, so its key only moves the focus to the button, and Enter makes the call.
const makesCall = (control) => control.matches("button[name=_line]");

function help() {
  let dialog = document.getElementById("keys");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "keys";
    dialog.setAttribute("aria-label", "Keys");
    const list = document.createElement("dl");
    const add = (key, meaning) => {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = key;
      text.textContent = meaning;
      list.append(term, text);
    };
    for (const control of document.querySelectorAll("[data-key]")) {
      const label = control.labels?.[0]?.textContent.trim();
      const name = control.getAttribute("aria-label") || label || control.title || control.textContent.trim();
      add(makesCall(control) ? `${control.dataset.key}, Enter` : control.dataset.key, name);
    }
    if (rows().length) add("j, k, Enter", "move in the list, open the chosen row");
    add("?", "show these keys");
    const close = document.createElement("button");
    close.textContent = "Close";
    close.className = "button";
    close.addEventListener("click", () => dialog.close());
    dialog.append(list, close);
    document.body.append(dialog);
  }
  dialog.showModal();
}

// A closed dialog keeps the focus until the next frame, so only an open one is excluded here.
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  if (event.key === "?") { help(); return; }
  if (event.key === "j") { choose(row + 1); return; }
  if (event.key === "k") { choose(row - 1); return; }
  if (event.key === "Enter") {
    if (row >= 0 && event.target === document.body) rows()[row]?.querySelector("button, a")?.click();
    return;
  }
  const control = [...document.querySelectorAll("[data-key]")].find((element) => element.dataset.key === event.key);
  if (!control) return;
  event.preventDefault();
  // The line for typed calls sticks to the bottom of the window while it has the focus, so nothing has to scroll.
  if (control.matches("input") || makesCall(control)) control.focus({ preventScroll: control.id === "line" });
  else control.click();
});

// Filter the facts that can be cited by a word.
for (const field of document.querySelectorAll("[data-filter]")) {
  field.addEventListener("input", () => {
    const word = field.value.toLowerCase();
    for (const group of document.getElementById(field.dataset.filter).querySelectorAll("details")) {
      const head = group.querySelector("summary").textContent.toLowerCase().includes(word);
      let anyShown = false;
      for (const fact of group.querySelectorAll("label")) {
        fact.hidden = !head && !fact.textContent.toLowerCase().includes(word);
        anyShown ||= !fact.hidden;
      }
      group.hidden = !anyShown;
      if (word && anyShown) group.open = true;
    }
  });
}
document.documentElement.classList.add("js");

// A click on a known value fills in its field.
addEventListener("click", (event) => {
  const field = document.getElementById(event.target.dataset?.fill);
  if (!field) return;
  field.value = event.target.textContent;
  field.focus();
});
// Show the field that was refused.
document.querySelector("main [aria-invalid]")?.focus();

// Live updates of a watched session. The server's templates escape all text, so the HTML is safe to insert.
for (const calls of document.querySelectorAll("[data-watch]")) {
  const source = new EventSource(calls.dataset.watch);
  const stop = (word) => {
    source.close();
    const live = document.getElementById("live");
    live.textContent = word;
    live.classList.add("off");
  };
  source.addEventListener("message", (event) => {
    const { calls: rows, state, progress, announcement } = JSON.parse(event.data);
    document.getElementById("state").innerHTML = state;
    if (document.getElementById("progress")) document.getElementById("progress").innerHTML = progress;
    document.getElementById("announcement").textContent = announcement;
    document.getElementById("none")?.remove();
    calls.querySelectorAll(".fresh details").forEach((details) => { details.open = false; });
    calls.querySelectorAll(".fresh").forEach((item) => item.classList.remove("fresh"));
    calls.insertAdjacentHTML("afterbegin", rows);
  });
  source.addEventListener("over", (event) => {
    stop("Over");
    document.getElementById("over").innerHTML = JSON.parse(event.data).notice;
  });
  source.addEventListener("gone", () => { stop("Closed"); document.getElementById("gone").hidden = false; });
  addEventListener("pagehide", () => source.close());
}

// Plays a demonstration: asks the server for one step after another. Live updates show the steps.
for (const controls of document.querySelectorAll("#controls")) {
  const pauses = [4000, 2000, 1000, 500, 200, 0];  // milliseconds between two steps
  const names = ["a step every 4 s", "a step every 2 s", "a step per second", "2 steps per second", "5 steps per second", "as fast as it can"];
  const turn = controls.elements.turn, pause = document.getElementById("pause"), output = document.getElementById("pace");
  const thinking = document.getElementById("thinking");
  let pace = 2, playing = false, asking = false, timer = 0;
  const step = async () => {
    if (asking) return;
    asking = true;
    // A model is loaded before its first step, which takes a while.
    const wait = setTimeout(() => { thinking.textContent = "The agent is thinking…"; }, 1500);
    const body = new URLSearchParams({ turn: turn.value, script: "1" });
    const reply = await fetch(controls.action, { method: "POST", body }).catch(() => null);
    asking = false;
    clearTimeout(wait);
    thinking.textContent = "";
    document.getElementById("stuck").hidden = Boolean(reply?.ok);
    if (!reply?.ok) { play(false); return; }
    const { step: made, done } = await reply.json();
    turn.value = made + 1;
    if (done) { play(false); controls.hidden = true; }
  };
  const tick = async () => { await step(); if (playing) timer = setTimeout(tick, pauses[pace]); };
  const play = (on) => {
    playing = on;
    clearTimeout(timer);
    pause.textContent = on ? "Pause" : "Play";
    if (on) tick();
  };
  const setPace = (next) => {
    pace = Math.max(0, Math.min(pauses.length - 1, next));
    output.value = names[pace];
    for (const button of controls.querySelectorAll("[data-pace]"))
      button.disabled = pace === (button.dataset.pace === "1" ? 0 : pauses.length - 1);
  };
  pause.addEventListener("click", () => play(!playing));
  controls.addEventListener("click", (event) => {
    if (event.target.dataset.pace) { setPace(pace - Number(event.target.dataset.pace)); if (playing) play(true); }
  });
  controls.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.submitter?.value === "all") { setPace(pauses.length - 1); play(true); } else { play(false); step(); }
  });
  addEventListener("pagehide", () => play(false));
  setPace(pace);
  if (new URLSearchParams(location.search).has("play")) play(true);
}

// The replay page shows one step at a time. The slider, keys, marks and links to steps change it.
for (const player of document.querySelectorAll("#player")) {
  const scenes = [...player.querySelectorAll(".scene")], marks = [...player.querySelectorAll(".track i")];
  const scrub = document.getElementById("scrub"), at = document.getElementById("at");
  const go = (step) => {
    const now = Math.max(1, Math.min(scenes.length, step));
    scenes.forEach((scene) => { scene.hidden = Number(scene.dataset.step) !== now; });
    marks.forEach((mark) => mark.classList.toggle("here", Number(mark.dataset.step) === now));
    scrub.value = now;
    at.value = `${now} of ${scenes.length}`;
  };
  const stepInAddress = () => Number(/^#step-(\d+)$/.exec(location.hash)?.[1] || 0);
  scrub.addEventListener("input", () => go(Number(scrub.value)));
  player.addEventListener("click", (event) => {
    if (event.target.dataset.go) go(Number(scrub.value) + Number(event.target.dataset.go));
    else if (event.target.matches(".track i")) go(Number(event.target.dataset.step));
  });
  addEventListener("hashchange", () => { if (stepInAddress()) go(stepInAddress()); });
  go(stepInAddress() || Number(player.dataset.at));
}

// Send a transcript as soon as it is dropped.
for (const place of document.querySelectorAll("[data-drop]")) {
  const over = (is) => (event) => { event.preventDefault(); place.classList.toggle("over", is); };
  place.addEventListener("dragover", over(true));
  place.addEventListener("dragleave", over(false));
  place.addEventListener("drop", (event) => {
    over(false)(event);
    if (!event.dataTransfer.files.length) return;
    place.querySelector("input").files = event.dataTransfer.files;
    place.closest("form").requestSubmit();
  });
}
