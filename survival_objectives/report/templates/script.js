"use strict";
(() => {
  const data = JSON.parse(document.getElementById("people-data").textContent);
  const slider = document.getElementById("horizon");
  const label = document.getElementById("horizon-label");
  const cards = Array.from(document.querySelectorAll(".person"));

  const show = () => {
    const step = Number(slider.value);
    const spoken = `${data.duration} ${data.times[step]}`;
    label.textContent = data.times[step];
    slider.setAttribute("aria-valuetext", spoken);
    for (const card of cards) {
      const curves = data.people[Number(card.dataset.person)];
      card.querySelector(".horizon-text").textContent = spoken;
      for (const cell of card.querySelectorAll("[data-state]")) {
        const share = curves[Number(cell.dataset.state)][step];
        cell.textContent = `${(100 * share).toFixed(1)}%`;
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
})();
