"use strict";
// Times are shown in the reader's own zone; without this script they stand in UTC.
for (const t of document.querySelectorAll("time[datetime]")) {
  const at = new Date(t.dateTime);
  if (isNaN(at)) continue;
  t.title = t.textContent;
  t.textContent = at.toLocaleString([], { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
}
