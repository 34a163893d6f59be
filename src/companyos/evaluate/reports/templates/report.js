"use strict";
// Plays the episodes of the page. Texts of an episode only become text nodes, never tags.
(() => {
  const { runs, episodes } = JSON.parse(document.getElementById("playbacks").textContent);
  const player = document.getElementById("player");
  const LETTERS = "ABCDEFGH";
  const PACE = 900; // milliseconds per step
  const HIGH = 84; // height of the track in pixels

  const make = (name, attributes, ...content) => fill(document.createElement(name), attributes, content);
  const draw = (name, attributes, ...content) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, content);
  function fill(element, attributes, content) {
    for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
    element.append(...content.flat().filter((piece) => piece !== null));
    return element;
  }
  const signed = (number) => (number < 0 ? "−" : "+") + Math.abs(number).toFixed(2);
  const chip = (run) => {
    const mark = make("span", { class: "chip" }, LETTERS[run]);
    mark.style.setProperty("--run", `var(--run-${run})`);
    return mark;
  };

  if (!episodes.length) {
    player.replaceChildren(make("p", {}, "There is no episode to play."));
    return;
  }

  let episode, at, timer = null;
  const list = make("ul", { class: "list", "aria-label": "Episodes" });
  const stage = make("div", { class: "stage" });
  const buttons = episodes.map((one, number) => {
    const [family, ...rest] = one.task_id.split("-");
    const trial = one.trial ? `, trial ${one.trial + 1}` : "";
    const button = make("button", { type: "button" }, chip(one.run), family.replaceAll("_", " "),
      make("small", {}, rest.join("-") + trial),
      make("small", { class: one.success ? "won" : "lost" }, `${one.success ? "success" : "failure"} in ${one.moments.length} steps`));
    button.addEventListener("click", () => open(number));
    list.append(make("li", {}, button));
    return button;
  });
  player.replaceChildren(list, stage);

  function open(number, step) {
    stop();
    episode = episodes[number];
    buttons.forEach((button, other) => button.setAttribute("aria-current", String(other === number)));
    const last = episode.moments.length;
    const range = make("input", { type: "range", min: 0, max: last, step: 1, "aria-label": "Step" });
    range.addEventListener("input", () => { stop(); show(Number(range.value)); });
    const control = (label, sign, act) => {
      const button = make("button", { type: "button", "aria-label": label, title: label }, sign);
      button.addEventListener("click", act);
      return button;
    };
    const play = control("Play", "▶", () => (timer === null ? start() : stop()));
    const track = drawTrack(Math.max(200, stage.clientWidth));
    const moment = make("div", { "aria-live": "polite" });
    stage.replaceChildren(
      make("h3", {}, chip(episode.run), `${runs[episode.run]}: `, make("code", {}, episode.task_id)),
      make("p", { class: "brief" }, episode.brief),
      ...episode.told.map((line) => make("p", { class: episode.success ? "" : "lost" }, line)),
      episode.differs ? make("p", { class: "differs" }, `The file differs from the replay of its calls: ${episode.differs}`) : "",
      track.picture,
      make("div", { class: "scrub" },
        control("One step back", "◀", () => { stop(); show(at - 1); }), play,
        control("One step on", "▶|", () => { stop(); show(at + 1); }), range,
        episode.decisive ? control("To the decisive call", "⚑", () => { stop(); show(episode.decisive); }) : null),
      moment,
    );
    stage.parts = { range, play, moment, head: track.head };
    show(step === undefined ? episode.decisive || last : step);
  }

  function start() {
    if (at >= episode.moments.length) show(0);
    stage.parts.play.replaceChildren("❚❚");
    stage.parts.play.setAttribute("aria-label", "Pause");
    timer = setInterval(() => {
      show(at + 1);
      if (at >= episode.moments.length) stop();
    }, PACE);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    if (!stage.parts) return;
    stage.parts.play.replaceChildren("▶");
    stage.parts.play.setAttribute("aria-label", "Play");
  }

  // Draws the return so far as a line, below it a tick per step in the colour of the reply, above it a dot per milestone.
  function drawTrack(wide) {
    const count = episode.moments.length;
    const x = (step) => 6 + (step / Math.max(1, count)) * (wide - 12);
    const sums = [0];
    for (const moment of episode.moments) sums.push(sums.at(-1) + moment.reward);
    const low = Math.min(...sums), high = Math.max(...sums);
    const y = (sum) => 56 - ((sum - low) / (high - low || 1)) * 40;
    const colours = { ok: "var(--good)", no_answer: "var(--harm)" };
    const picture = draw("svg", { class: "track", viewBox: `0 0 ${wide} ${HIGH}`, role: "img",
      "aria-label": "The return so far, step by step" });
    picture.append(draw("polyline", { class: "line", points: sums.map((sum, step) => `${x(step).toFixed(1)},${y(sum).toFixed(1)}`).join(" ") }));
    let stood = 0;
    episode.moments.forEach((moment, number) => {
      const step = number + 1;
      const tick = draw("rect", { x: x(step) - Math.min(3, 200 / count), width: Math.min(6, 400 / count), y: 66, height: 12, rx: 1 });
      tick.style.fill = colours[moment.code] || "var(--bad)";
      tick.style.opacity = moment.code === "ok" ? 0.45 : 1;
      picture.append(tick);
      if (moment.standing.length > stood) {
        const dot = draw("circle", { cx: x(step), cy: 6, r: 4 });
        dot.style.fill = "var(--fine)";
        picture.append(dot);
      }
      stood = moment.standing.length;
    });
    if (episode.decisive) {
      const mark = draw("rect", { x: x(episode.decisive) - 1.5, width: 3, y: 0, height: HIGH });
      mark.style.fill = "var(--bad)";
      picture.append(mark);
    }
    const head = draw("rect", { width: 2, y: 0, height: HIGH });
    head.style.fill = "var(--ink)";
    picture.append(head);
    picture.addEventListener("click", (event) => {
      const box = picture.getBoundingClientRect();
      stop();
      show(Math.round((((event.clientX - box.left) / box.width) * wide - 6) / (wide - 12) * count));
    });
    return { picture, head: (step) => head.setAttribute("x", x(step) - 1) };
  }

  function show(step) {
    at = Math.max(0, Math.min(episode.moments.length, step));
    const { range, moment, head } = stage.parts;
    range.value = at;
    head(at);
    const now = at ? episode.moments[at - 1] : null;
    const total = episode.moments.slice(0, at).reduce((sum, one) => sum + one.reward, 0);
    const standing = new Set(now ? now.standing : []);
    const over = at === episode.moments.length;
    range.setAttribute("aria-valuetext", `step ${at} of ${episode.moments.length}`);
    moment.replaceChildren(
      make("div", { class: "when" },
        make("span", {}, `Step ${at} of ${episode.moments.length}`), make("span", {}, now ? now.clock : episode.begins),
        make("span", {}, `Return ${signed(total)}`),
        at && at === episode.decisive ? make("span", { class: "decisive" }, "the decisive call") : "",
        at && at === episode.late && at !== episode.decisive ? make("span", { class: "decisive" }, "too late from here on") : ""),
      make("div", { class: "moment" },
        make("div", {}, now
          ? [make("h4", {}, "Call"), make("pre", {}, now.call), make("h4", {}, `Reply: ${now.code}`), make("pre", {}, now.reply || "–")]
          : [make("h4", {}, "Before the first call"), make("pre", {}, `A budget of ${episode.budget} steps.`)]),
        make("div", {},
          make("h4", {}, "Milestones"),
          make("ul", {}, episode.milestones.map((name, number) =>
            make("li", { class: standing.has(number) ? "won" : "open" }, `${standing.has(number) ? "✓" : "○"} ${name.replaceAll("_", " ")}`))),
          now ? [make("h4", {}, `Reward ${signed(now.reward)}`),
            make("ul", {}, Object.entries(now.parts).map(([name, part]) => make("li", {}, `${name.replaceAll("_", " ")} ${signed(part)}`)))] : null,
          over ? [make("h4", {}, "Verdict"),
            make("ul", {}, Object.entries(episode.goals).map(([name, holds]) =>
              make("li", { class: holds ? "won" : "lost" }, `${holds ? "✓" : "✗"} ${name.replaceAll("_", " ")}`)),
              episode.damage.map((harm) => make("li", { class: "lost" }, `✗ damage: ${harm}`)))] : null)),
    );
  }

  let width = stage.clientWidth;
  addEventListener("resize", () => {
    if (stage.clientWidth === width) return;
    width = stage.clientWidth;
    open(episodes.indexOf(episode), at);
  });
  open(0);
})();
