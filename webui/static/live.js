// Elements marked data-live are replaced by what the server renders now. The page is the one place that knows how
// to show things; this only swaps the parts that changed.

const status = document.getElementById("live");

export function say(text, lost = false) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("lost", lost);
}

function swap(old, fresh) {
  if (old.innerHTML === fresh.innerHTML) return;
  const open = new Set([...old.querySelectorAll("details[open]")].map((d) => d.dataset.key));
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const scrolled = [...old.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
  old.replaceChildren(...fresh.childNodes);
  for (const details of old.querySelectorAll("details")) details.open = open.has(details.dataset.key);
  old.querySelectorAll(".scroll").forEach((s, i) => { s.scrollLeft = scrolled[i] ?? 0; });
  if (focused) {
    const again = focused.getAttribute("href")
      ? old.querySelector(`[href="${CSS.escape(focused.getAttribute("href"))}"]`)
      : old.querySelector(focused.tagName.toLowerCase());
    again?.focus({ preventScroll: true });
  }
}

/** Fetch this page again and swap its live parts. False when the server does not answer. */
export async function refresh() {
  let text;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (!response.ok) throw new Error(String(response.status));
    text = await response.text();
  } catch {
    say("connection lost, trying again", true);
    return false;
  }
  await released();
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const old of document.querySelectorAll("[data-live]")) {
    const part = fresh.getElementById(old.id);
    if (part && !holdsSelection(old)) swap(old, part);
  }
  document.dispatchEvent(new Event("swapped"));
  return true;
}

/** A person is marking text there: do not pull it away. */
function holdsSelection(element) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && element.contains(selection.anchorNode);
}

let pressed = false;
addEventListener("pointerdown", (event) => { pressed = event.button === 0; }, true);
for (const kind of ["pointerup", "pointercancel", "contextmenu", "blur"]) addEventListener(kind, () => { pressed = false; });

/** No pointer is down any more: what is replaced between press and release gets no click. */
async function released() {
  while (pressed) await new Promise((done) => setTimeout(done, 50));
}

/** Refresh every `period` ms while the page is visible. */
export function keepLive(period) {
  let busy = false;
  const tick = async () => {
    if (busy || document.hidden) return;
    busy = true;
    if (await refresh()) say("live");
    busy = false;
  };
  say("live");
  setInterval(tick, period);
  document.addEventListener("visibilitychange", tick);
}
