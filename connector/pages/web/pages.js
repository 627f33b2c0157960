"use strict";
// Times are shown in the reader's own zone; without this script they stand in UTC.
const local = (within) => {
  for (const t of within.querySelectorAll("time[datetime*=T]")) {
    const at = new Date(t.dateTime);
    if (isNaN(at)) continue;
    t.title = t.textContent;
    t.textContent = at.toLocaleString([], { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
  }
};
local(document);
// A region that is not done is fetched again, every so many seconds, until it is.
const follow = (region) => {
  if (!region || region.getAttribute("aria-busy") !== "true") return;
  setTimeout(async () => {
    try {
      const got = await fetch(location.href, { credentials: "same-origin" });
      if (!got.ok) return;
      const page = new DOMParser().parseFromString(await got.text(), "text/html");
      const next = page.querySelector("[data-refresh]");
      if (!next) return location.reload();
      region.replaceWith(next);
      local(next);
      follow(next);
    } catch { follow(region); }
  }, Number(region.dataset.refresh) * 1000);
};
follow(document.querySelector("[data-refresh]"));
