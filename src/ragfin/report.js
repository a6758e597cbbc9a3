"use strict";
(() => {
  const form = document.querySelector("form");
  const items = [...document.querySelectorAll("details.question")];
  const count = document.getElementById("count");
  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const found = items.map((item) => ({
    item,
    links: item.dataset.links.split(" "),
    text: plain([...item.querySelectorAll("summary, .gold-answer, .said")].map((node) => node.textContent).join("\n")),
  }));

  const field = (name) => form.elements.namedItem(name);
  const value = (name) => (field(name) ? field(name).value : "");
  const apply = () => {
    const [text, kind, link, system] = [plain(value("text").trim()), value("kind"), value("link"), value("system")];
    const split = field("split") && field("split").checked;
    let shown = 0;
    for (const { item, links, text: content } of found) {
      const broken = links.some((entry) => {
        const [number, name] = entry.split(":");
        return (!system || number === system) && (!link || name === link);
      });
      const keep = broken && (!kind || item.dataset.kind === kind) && (!text || content.includes(text))
        && (!split || item.dataset.split === "yes");
      item.hidden = !keep;
      shown += keep;
    }
    count.textContent = `${shown} of ${items.length} questions`;
  };

  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  for (const button of document.querySelectorAll("button[data-link]")) {
    button.addEventListener("click", () => {
      form.reset();
      field("link").value = button.dataset.link;
      if (field("system")) field("system").value = button.dataset.system;
      apply();
      form.scrollIntoView();
    });
  }
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("details")) { target.hidden = false; target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  apply();
  open();
})();
