"use strict";
// Times are shown in the reader's own zone; without this script they stand in UTC.
const localTimes = (within) => {
  for (const t of within.querySelectorAll("time[datetime*=T]")) {
    const at = new Date(t.dateTime);
    if (isNaN(at)) continue;
    t.title = t.textContent;
    t.textContent = at.toLocaleString("en-GB", { day: "numeric", month: "short", year: at.getFullYear() === new Date().getFullYear() ? undefined : "numeric", hour: "2-digit", minute: "2-digit" });
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
// The editor of a mapping: a click on a field writes its name where the cursor is, the numbers
// of lines follow what is typed, and it is checked when the typing rests. Without this script
// there is a button.
const text = document.getElementById("text");
if (text) {
  const gutter = document.querySelector(".gutter"), form = text.form;
  const insert = (within) => {
    for (const name of within.querySelectorAll("[data-insert]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "insert";
      button.append(name.cloneNode(true));
      button.title = "Write it where the cursor is";
      button.onclick = () => {
        text.setRangeText(name.dataset.insert, text.selectionStart, text.selectionEnd, "end");
        text.focus();
        text.dispatchEvent(new Event("input"));
      };
      name.replaceWith(button);
    }
  };
  insert(document);
  new MutationObserver(() => insert(document)).observe(document.querySelector("main"), { childList: true });
  let rest, asked = 0;
  const check = async () => {
    const now = ++asked, tried = document.getElementById("tried");
    tried.setAttribute("aria-busy", "true");
    const body = new URLSearchParams(new FormData(form));
    body.set("do", "check");
    body.delete("record"); // only a person asks to see one
    try {
      const page = new DOMParser().parseFromString(await (await fetch(form.action, { method: "POST", body })).text(), "text/html");
      const next = page.getElementById("tried"), lines = page.querySelector(".gutter");
      if (now !== asked || !next || !lines) return;
      gutter.replaceChildren(...lines.children);
      tried.replaceWith(next);
      document.getElementById("result").replaceWith(page.getElementById("result"));
      document.getElementById("problem")?.remove();
      const problem = page.getElementById("problem");
      if (problem) document.querySelector("h1").after(problem);
      document.title = page.title;
    } catch { tried.removeAttribute("aria-busy"); /* the button checks, too */ }
  };
  text.addEventListener("input", () => {
    const lines = text.value.split("\n").length;
    text.rows = lines + 1;
    for (let n = gutter.children.length; n < lines; n++) gutter.append(Object.assign(document.createElement("li"), { textContent: n + 1, id: "line-" + (n + 1) }));
    while (gutter.children.length > lines) gutter.lastChild.remove();
    clearTimeout(rest);
    if ("check" in form.dataset) rest = setTimeout(check, 700);
  });
  document.getElementById("problem")?.focus();
}
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
// A form that has nothing to ask goes by itself; without this script it has a button.
document.querySelector("form[data-go]")?.requestSubmit();
