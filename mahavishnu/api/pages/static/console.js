// What pages do beyond links and forms: live numbers, keys, copying, relative times, the theme. Each of it may be
// missing, and every page still works. No inline code, no eval: the content security policy allows neither.
(() => {
  "use strict";
  const each = (selector, act, within = document) => within.querySelectorAll(selector).forEach(act);
  const stored = (name, value) => {
    try {
      if (value === undefined) return localStorage.getItem("mahavishnu-" + name);
      if (value === null) localStorage.removeItem("mahavishnu-" + name);
      else localStorage.setItem("mahavishnu-" + name, value);
    } catch { /* storage is switched off: nothing is remembered */ }
    return null;
  };

  // --- the theme, before anything is painted
  const root = document.documentElement;
  const themes = [null, "light", "dark"];
  const applyTheme = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
  applyTheme(stored("theme"));

  // --- relative times; the server says them in the same words
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const span = (seconds) => {
    seconds = Math.abs(Math.trunc(seconds));
    for (const [size, unit] of units) {
      if (seconds >= size) {
        const minutes = Math.floor((seconds % size) / 60);
        return Math.floor(seconds / size) + " " + unit + (unit === "h" && minutes ? ` ${minutes} min` : "");
      }
    }
    return "less than 1 s";
  };
  let ahead = 0; // of our clock, compared with the server's
  const tellTimes = () => {
    const now = (Date.now() - ahead) / 1000;
    each("time[data-ago], time[data-span]", (time) => {
      const past = now - Date.parse(time.dateTime) / 1000;
      time.textContent = "span" in time.dataset ? span(past)
        : Math.abs(past) < 1 ? "just now" : past > 0 ? span(past) + " ago" : "in " + span(past);
    });
  };

  // --- live: one connection, and at most one request a second while the page is seen
  const QUIET = 20000, LASTS = 2000; // a page may show for a second what was read before a change
  const live = () => {
    const holder = document.getElementById("live");
    if (!holder || !window.EventSource) return;
    let timer = null, again = null, last = 0, stale = false, lostSince = null;
    const refresh = () => {
      timer = null;
      if (document.hidden) { stale = true; return; }
      last = Date.now(); stale = false;
      htmx.trigger(holder, "refresh");
    };
    const changed = () => { timer ??= setTimeout(refresh, Math.max(0, last + 1000 * Number(holder.dataset.every) - Date.now()) + Math.random() * 200); };
    const lost = document.getElementById("lost");
    const source = new EventSource(holder.dataset.events);
    for (const name of ["letter", "group", "run", "many", "degraded"]) source.addEventListener(name, () => {
      changed();
      clearTimeout(again);
      again = setTimeout(changed, LASTS); // what the page got just now may have been read before the change
      document.dispatchEvent(new CustomEvent("mahavishnu:" + name));
    });
    source.onopen = () => { changed(); lostSince = null; lost.hidden = true; }; // also of what happened before it was open
    source.onerror = () => {
      lostSince ??= Date.now();
      if (source.readyState === EventSource.CLOSED) { lost.hidden = false; source.close(); }
    };
    setInterval(() => {
      if (lostSince && Date.now() - lostSince > QUIET) {
        lost.querySelector("[data-lost-at]").textContent = new Date(lostSince - ahead).toISOString().slice(11, 19) + " UTC";
        lost.hidden = false;
      }
    }, 1000);
    document.addEventListener("visibilitychange", () => { if (!document.hidden && stale) changed(); });
    addEventListener("pagehide", () => source.close());
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
    // Nothing moves under the pointer, nor under what has the focus: it is swapped once they have left.
    document.addEventListener("htmx:oobBeforeSwap", (event) => {
      const target = event.detail.target;
      const busy = target.matches(":hover:has(table, ul, form), :focus-within") || target.querySelector("details[open]");
      if (!busy) return;
      event.detail.shouldSwap = false;
      if (target.dataset.waits) return;
      target.dataset.waits = "1";
      const again = () => { if (target.isConnected && target.matches(":focus-within")) return; delete target.dataset.waits; changed(); };
      target.addEventListener("pointerleave", again, { once: true });
      target.addEventListener("focusout", again, { once: true });
    });
  };

  // --- rows of a list, by keys
  const rows = () => [...document.querySelectorAll("main tbody tr:has(th a)")];
  let row = null;
  const moveTo = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = row && row.isConnected ? all.indexOf(row) : -1;
    row = all[Math.min(all.length - 1, Math.max(0, at + step))];
    row.querySelector("th a").focus();
    row.scrollIntoView({ block: "nearest" });
  };
  const press = (selector) => {
    const found = document.querySelector(selector);
    if (found && !found.disabled) { found.focus(); if (found.matches("button, a, summary, input[type=checkbox]")) found.click(); return true; }
    return false;
  };
  let going = 0;
  const onKey = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || stored("keys") === "off") return;
    const field = event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
    if (event.key === "Escape") {
      if (field) field.blur();
      else document.querySelector("details.menu[open]")?.removeAttribute("open");
      return;
    }
    if (field) return;
    if (Date.now() - going < 1500) {
      going = 0;
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    const acts = {
      "/": () => press("#q, .top .find input"),
      "g": () => { going = Date.now(); return true; },
      "j": () => { moveTo(1); return true; },
      "k": () => { moveTo(-1); return true; },
      "x": () => { const box = row?.querySelector("input[type=checkbox]"); if (box) box.click(); return !!box; },
      "a": () => press("[data-all]"),
      "y": () => press(".copied > button"),
      "?": () => { const keys = document.getElementById("keys"); if (keys && !keys.open) keys.showModal(); return !!keys; },
    };
    const done = Object.hasOwn(acts, event.key) ? acts[event.key]() : press(`[data-key="${CSS.escape(event.key)}"]`);
    if (done) event.preventDefault();
  };

  // --- what is there once only, and what is there again after each swap
  const copied = (pre) => {
    if (!navigator.clipboard || pre.parentElement.querySelector("button")) return;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "btn low", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    pre.parentElement.append(button);
  };
  const fresh = (within) => { each(".copied > pre", copied, within); tellTimes(); };

  document.addEventListener("DOMContentLoaded", () => {
    const clock = document.querySelector("meta[name=server-time]");
    if (clock) ahead = Date.now() - Date.parse(clock.content);
    fresh(document);
    setInterval(tellTimes, 10000);
    each("[data-theme-switch]", (button) => {
      const name = () => { button.textContent = "Theme: " + (stored("theme") ?? "as the system"); };
      button.hidden = false;
      name();
      button.addEventListener("click", () => {
        const next = themes[(themes.indexOf(stored("theme")) + 1) % themes.length];
        stored("theme", next); applyTheme(next); name();
      });
    });
    each("[data-keys]", (button) => {
      button.hidden = false;
      button.addEventListener("click", () => document.getElementById("keys").showModal());
    });
    each("[data-keys-off]", (button) => {
      const name = () => { button.textContent = stored("keys") === "off" ? "Switch keys on" : "Switch keys off"; };
      name();
      button.addEventListener("click", () => { stored("keys", stored("keys") === "off" ? null : "off"); name(); });
    });
    each("[data-close]", (button) => button.addEventListener("click", () => button.closest("dialog").close()));
    document.addEventListener("keydown", onKey);
    document.addEventListener("focusin", (event) => { row = event.target.closest("main tbody tr") ?? row; });
    document.addEventListener("change", (event) => {
      const all = event.target.closest("[data-all]");
      if (all) each(`input[name="${CSS.escape(all.dataset.all)}"]`, (box) => { if (!box.disabled) box.checked = all.checked; });
    });
    if (window.htmx) live(); else addEventListener("load", live);
  });
  document.addEventListener("htmx:afterSettle", (event) => fresh(event.target));
  document.addEventListener("htmx:oobAfterSwap", (event) => fresh(event.target));
})();
