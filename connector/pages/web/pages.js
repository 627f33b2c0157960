"use strict";
// Times are shown in the reader's own zone; without this script they stand in UTC.
const localTimes = (within) => {
  for (const t of within.querySelectorAll("time[datetime*=T]")) {
    const at = new Date(t.dateTime);
    if (isNaN(at)) continue;
    t.title = t.textContent;
    t.textContent = at.toLocaleString([], { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
  }
};
localTimes(document);
// What is at work is looked at again every two seconds until it is not; without this script
// there is a link.
const again = (region) => setTimeout(async () => {
  let next = region;
  try {
    const answer = await fetch(location.href);
    const now = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(region.id);
    if (now) {
      localTimes(now);
      region.replaceWith(now);
      next = now;
    } else if (answer.ok) return location.reload(); // it is another page by now
  } catch { /* the next look may succeed */ }
  if (next.hasAttribute("data-again")) again(next);
}, 2000);
for (const region of document.querySelectorAll("[data-again][id]")) again(region);
// Keys press the buttons and links that name them; who types in a field means the field.
const keys = document.getElementById("keys");
if (keys) {
  const off = () => { try { return localStorage.getItem("keys") === "off"; } catch { return false; } };
  const label = () => { keys.textContent = off() ? "Switch the keys on" : "Switch the keys off"; };
  keys.hidden = false;
  keys.onclick = () => { try { localStorage.setItem("keys", off() ? "on" : "off"); } catch { /* not kept */ } label(); };
  label();
  document.addEventListener("keydown", (e) => {
    if (off() || e.repeat || e.ctrlKey || e.altKey || e.metaKey || e.target.closest("input:not([type=checkbox]), textarea, select")) return;
    const to = document.querySelector(`[data-key="${CSS.escape(e.key)}"]`);
    if (to) { e.preventDefault(); to.click(); }
  });
}
