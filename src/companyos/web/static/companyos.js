// What a page does beside working: every link and form here works without this file.
"use strict";

// A page that comes back from memory carries the turn that was due then.
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// A second click changes nothing (the turn's number sees to that); this only spares the request.
addEventListener("submit", (event) => {
  if (event.target.dataset.sent) { event.preventDefault(); return; }
  event.target.dataset.sent = "yes";
  setTimeout(() => delete event.target.dataset.sent, 4000);
});

const rows = () => [...document.querySelectorAll("table.list tbody tr, ol.letters > li, ol.events > li")];
let row = -1;

function choose(next) {
  const all = rows();
  if (!all.length) return;
  all[row]?.classList.remove("chosen");
  row = Math.max(0, Math.min(all.length - 1, next));
  all[row].classList.add("chosen");
  all[row].scrollIntoView({ block: "nearest" });
}

function help() {
  let dialog = document.getElementById("keys");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "keys";
    dialog.setAttribute("aria-label", "Keys");
    const list = document.createElement("dl");
    const say = (key, what) => {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = key;
      text.textContent = what;
      list.append(term, text);
    };
    for (const one of document.querySelectorAll("[data-key]"))
      say(one.dataset.key, one.getAttribute("aria-label") || one.title || one.textContent.trim() || one.placeholder);
    if (rows().length) say("j, k, Enter", "go through the list, open one");
    say("?", "these keys");
    const close = document.createElement("button");
    close.textContent = "Close";
    close.className = "button";
    close.addEventListener("click", () => dialog.close());
    dialog.append(list, close);
    document.body.append(dialog);
  }
  dialog.showModal();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "?") { help(); return; }
  if (event.key === "j") { choose(row + 1); return; }
  if (event.key === "k") { choose(row - 1); return; }
  if (event.key === "Enter") {
    if (row >= 0 && event.target === document.body) rows()[row]?.querySelector("button, a")?.click();
    return;
  }
  const wanted = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === event.key);
  if (!wanted) return;
  event.preventDefault();
  if (wanted.matches("input")) wanted.focus();
  else wanted.click();
});

// Facts to cite can be many: a field finds those that hold a word.
for (const field of document.querySelectorAll("[data-filter]")) {
  field.addEventListener("input", () => {
    const word = field.value.toLowerCase();
    for (const group of document.getElementById(field.dataset.filter).querySelectorAll("details")) {
      const head = group.querySelector("summary").textContent.toLowerCase().includes(word);
      let some = false;
      for (const fact of group.querySelectorAll("label")) {
        fact.hidden = !head && !fact.textContent.toLowerCase().includes(word);
        some ||= !fact.hidden;
      }
      group.hidden = !some;
      if (word && some) group.open = true;
    }
  });
}
document.documentElement.classList.add("js");
