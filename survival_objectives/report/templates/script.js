"use strict";
(() => {
  const data = JSON.parse(document.getElementById("people-data").textContent);
  const slider = document.getElementById("horizon");
  const label = document.getElementById("horizon-label");
  const cards = Array.from(document.querySelectorAll(".person"));

  const show = () => {
    const step = Number(slider.value);
    const spoken = data.labels[step];
    label.textContent = spoken;
    slider.setAttribute("aria-valuetext", spoken);
    for (const card of cards) {
      const curves = data.people[Number(card.dataset.person)];
      card.querySelector(".horizon-text").textContent = spoken;
      for (const cell of card.querySelectorAll("[data-state]")) {
        const share = curves[Number(cell.dataset.state)][step];
        cell.textContent = `${(100 * share).toFixed(1)}%`;
      }
      for (const cell of card.querySelectorAll("[data-limits]")) {
        const ends = data.limits[Number(card.dataset.person)];
        const [low, high] = ends.map((end) => (100 * end[Number(cell.dataset.limits)][step]).toFixed(0));
        cell.textContent = `${low}–${high}%`;
      }
      const marker = card.querySelector(".marker");
      const left = Number(marker.dataset.left);
      const place = left + data.place[step] * (Number(marker.dataset.right) - left);
      marker.setAttribute("x1", place);
      marker.setAttribute("x2", place);
    }
  };
  slider.addEventListener("input", show);
  show();

  const when = document.getElementById("when");
  const choose = () => {
    for (const part of document.querySelectorAll(".at")) {
      const isChosen = part.dataset.when === when.value;
      part.classList.toggle("shown", isChosen);
      if (isChosen) {
        document.getElementById("when-label").textContent = part.dataset.label;
        when.setAttribute("aria-valuetext", part.dataset.label);
      }
    }
  };
  if (when) {
    when.addEventListener("input", choose);
    choose();
  }

  // The titles of charts become one tooltip, which also a finger can call up.
  const tip = document.getElementById("tip");
  for (const title of document.querySelectorAll("svg title")) {
    title.parentElement.dataset.tip = title.textContent;
    title.remove();
  }
  const hide = () => { tip.hidden = true; };
  const point = (event) => {
    const target = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
    if (!target) {
      hide();
      return;
    }
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, room))}px`;
    const above = event.clientY - tip.offsetHeight - 12;
    tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", hide);
})();
