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
// A form that has nothing to ask goes by itself; without this script it has a button.
document.querySelector("form[data-go]")?.requestSubmit();
