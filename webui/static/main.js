// What every page has: copy buttons, and parts that keep themselves current.

import { enableActions } from "./actions.js";
import { keepLive } from "./live.js";

function enableCopying(root) {
  for (const button of root.querySelectorAll("button.copy")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

enableCopying(document);
enableActions();
if (document.querySelector("[data-live]") && !document.getElementById("curves")) keepLive(3000);
