// What can be written next in a query, below its field while somebody types: the pattern of a combobox. Without it the
// field is what it was. The server knows the language; here is only how it is shown.
(() => {
  "use strict";
  const WAITS = 150, MOST = 8; // milliseconds after a key; suggestions
  // What turns the direction of text is shown as an escape, as pages do.
  const plain = (text) => text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (each) => "\\u" + each.charCodeAt(0).toString(16).padStart(4, "0"));
  const complete = (field, number) => {
    const list = Object.assign(document.createElement("ul"), { id: `pick-${number}`, className: "pick", hidden: true });
    const told = Object.assign(document.createElement("span"), { className: "hide" });
    let found = null, active = -1, timer = null, asked = null;
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "What can be written next");
    told.setAttribute("role", "status");
    for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", list.id]]) field.setAttribute(name, value);
    field.parentElement.append(list, told);

    const close = () => {
      clearTimeout(timer); asked?.abort();
      found = null; active = -1; list.hidden = true; told.textContent = "";
      field.setAttribute("aria-expanded", "false");
      field.removeAttribute("aria-activedescendant");
    };
    const mark = (place) => {
      active = place;
      [...list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === active)));
      if (active < 0) { field.removeAttribute("aria-activedescendant"); return; }
      field.setAttribute("aria-activedescendant", list.children[active].id);
      list.children[active].scrollIntoView({ block: "nearest" });
    };
    const accept = (place) => {
      const { start, end, items } = found, text = items[place].text, rest = field.value.slice(end);
      const goesOn = /[:.<>=]$/.test(text);
      const written = text + (goesOn || rest.startsWith(" ") ? "" : " ");
      field.value = field.value.slice(0, start) + written + rest;
      field.setSelectionRange(start + written.length, start + written.length);
      close();
      if (goesOn) ask();
    };
    const show = (answer) => {
      const only = answer.items.length === 1 && answer.items[0].text === field.value.slice(answer.start, answer.end);
      if (!answer.items.length || only) { close(); return; } // there is nothing more to say
      found = answer;
      list.replaceChildren(...answer.items.map((item, at) => {
        const option = Object.assign(document.createElement("li"), { id: `${list.id}-${at}` });
        const code = Object.assign(document.createElement("code"), { textContent: plain(item.text) });
        const about = item.letters === null ? item.about : item.letters.toLocaleString("en") + (item.letters === 1 ? " letter" : " letters");
        option.setAttribute("role", "option");
        option.append(code, Object.assign(document.createElement("span"), { className: "small", textContent: about }));
        option.addEventListener("pointerdown", (event) => { event.preventDefault(); accept(at); });
        return option;
      }));
      list.hidden = false;
      field.setAttribute("aria-expanded", "true");
      told.textContent = answer.items.length === 1 ? "1 suggestion" : `${answer.items.length} suggestions`;
      mark(-1);
    };
    const ask = async () => {
      asked?.abort();
      asked = new AbortController();
      const place = new URLSearchParams({ text: field.value, position: field.selectionStart, limit: MOST });
      try {
        const answer = await fetch(`${field.dataset.suggest}?${place}`, { signal: asked.signal, headers: { Accept: "application/json" } });
        if (answer.ok && document.activeElement === field) show(await answer.json()); else close();
      } catch { /* typed on, or no answer: the field works without */ }
    };
    field.addEventListener("input", () => { clearTimeout(timer); if (field.value) timer = setTimeout(ask, WAITS); else close(); });
    field.addEventListener("blur", close);
    field.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      const last = list.children.length - 1;
      if (event.key === "ArrowDown") { if (found) mark(active === last ? -1 : active + 1); else ask(); }
      else if (event.key === "ArrowUp" && found) mark(active < 0 ? last : active - 1);
      else if (event.key === "Escape" && found) { close(); event.stopPropagation(); }
      else if ((event.key === "Enter" || event.key === "Tab") && found && active >= 0) accept(active);
      else return;
      event.preventDefault();
    });
  };
  document.querySelectorAll("[data-suggest]").forEach(complete);
})();
