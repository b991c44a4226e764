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
  const ALONE = 60000; // a page that nobody has touched for so long moves by itself: it hangs on a wall
  const rowsIn = (within) => new Map([...within.querySelectorAll("tbody tr:has(th a)")].map((row) => [row.querySelector("th a").getAttribute("href"), row]));
  const isWritten = (within) => [...within.querySelectorAll("input, textarea, select")].some((field) =>
    field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked
      : field.tagName === "SELECT" ? field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected))
        : field.type !== "hidden" && field.value !== field.defaultValue);
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
    // Nothing moves under the pointer, nor under what has the focus: it is swapped once they have left. What somebody
    // has written and not sent stays. A list that would get other rows says so, and gets them when somebody wants it.
    const wanted = new Map(); // lists of which other rows are offered, with how many are new
    const button = document.querySelector("[data-offer]");
    const showOffer = () => {
      const news = Math.max(0, ...wanted.values());
      button.hidden = !wanted.size;
      button.firstElementChild.textContent = news ? `${news} new, show` : "The list has changed, show";
    };
    button.addEventListener("click", () => {
      for (const id of wanted.keys()) document.getElementById(id)?.setAttribute("data-show", "");
      wanted.clear(); showOffer(); refresh();
    });
    let touched = Date.now();
    for (const name of ["pointermove", "pointerdown", "keydown", "wheel", "touchstart"]) addEventListener(name, () => { touched = Date.now(); }, { passive: true });
    const isOffered = (target, fragment) => {
      if (!("steady" in target.dataset)) return false;
      const had = rowsIn(target), has = rowsIn(fragment);
      const news = [...has.keys()].filter((key) => !had.has(key)).length;
      const alone = Date.now() - touched > ALONE;
      if (alone || !had.size || String([...had.keys()]) === String([...has.keys()])) { wanted.delete(target.id); showOffer(); return false; }
      for (const [key, row] of had) {
        if (!has.has(key)) row.classList.toggle("gone", !fragment.querySelector("[rel=next]"));
        else if (!row.matches(":hover, :focus-within") && !isWritten(row)) row.replaceWith(has.get(key).cloneNode(true));
      }
      wanted.set(target.id, news); showOffer();
      return true;
    };
    // A login that has ended leads to the login, unless that would take away what somebody is writing.
    document.addEventListener("htmx:beforeOnLoad", (event) => {
      if (!event.detail.xhr.getResponseHeader("HX-Redirect") || !isWritten(document.querySelector("main"))) return;
      event.preventDefault();
      lost.querySelector("p").textContent = "Your login has ended. What you have written is still here: copy it before you go on.";
      lost.hidden = false;
    });
    document.addEventListener("htmx:oobBeforeSwap", (event) => {
      const target = event.detail.target;
      if ("show" in target.dataset) {
        const marked = [...target.querySelectorAll("input:checked")].map((box) => box.value);
        setTimeout(() => {
          const now = document.getElementById(target.id);
          each("input[type=checkbox]", (box) => { if (marked.includes(box.value)) box.checked = true; }, now);
          now.querySelector("tbody th a")?.focus();
        });
        return;
      }
      if (isOffered(target, event.detail.fragment)) { event.detail.shouldSwap = false; tellTimes(); return; }
      const busy = target.matches(":hover:has(table, ul, form), :focus-within") || target.querySelector("details[open]") || isWritten(target);
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
    if (!found || found.disabled) return false;
    found.closest("details:not([open])")?.setAttribute("open", "");
    found.focus();
    if (found.matches("button, a, summary, input[type=checkbox]")) found.click();
    const place = found.matches("a[href^='#']") && document.querySelector(found.getAttribute("href"));
    if (place) place.querySelector("input:not([type=hidden]), textarea, select")?.focus();
    return true;
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
      ".": () => press("[data-offer]:not([hidden])"),
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
  document.addEventListener("htmx:beforeSwap", (event) => { // what is swapped in is as old as the server says
    const told = /name="server-time" content="([^"]+)"/.exec(event.detail.xhr.responseText);
    if (told) ahead = Date.now() - Date.parse(told[1]);
  });
  document.addEventListener("htmx:afterSettle", (event) => fresh(event.target));
  document.addEventListener("htmx:oobAfterSwap", (event) => fresh(event.target));
})();
