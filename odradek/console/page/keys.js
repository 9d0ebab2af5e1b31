// The keyboard: views by number, the filter, lines of lists.

export function keys() {
  const help = document.getElementById("help");
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(?:INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (help.open) return;
    const view = document.querySelectorAll(".side nav a")[Number(event.key) - 1];
    if (view) location.hash = view.getAttribute("href");
    else if (event.key === "/") {
      const filter = document.querySelector("main input[type=search]");
      if (!filter) return;
      filter.focus();
    } else if (event.key === "?") help.showModal();
    else if (event.key === "ArrowDown" || event.key === "j") {
      if (!step(1)) return;
    } else if (event.key === "ArrowUp" || event.key === "k") {
      if (!step(-1)) return;
    } else return;
    event.preventDefault();
  });
}

/** Focus the next line in sight that can be opened. */
function step(by) {
  const lines = [...document.querySelectorAll("[data-list] a, [data-list] button.line")]
    .sort((one, other) => one.getBoundingClientRect().top - other.getBoundingClientRect().top);
  if (!lines.length) return false;
  const at = lines.indexOf(document.activeElement);
  const next = lines[at < 0 ? 0 : Math.max(0, Math.min(lines.length - 1, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}
