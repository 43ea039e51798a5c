// Buttons and forms that change something: they post to the API, as this page's user.

const JSON_TYPE = { "Content-Type": "application/json", Accept: "application/json" };

/** The reply, or an Error with what the API says is wrong. */
async function post(path, body) {
  const response = await fetch(path, { method: "POST", headers: JSON_TYPE, body: body && JSON.stringify(body) });
  const reply = await response.json().catch(() => ({}));
  if (response.ok) return reply;
  const { message, hint } = reply.error ?? { message: `the web app answered ${response.status}` };
  throw new Error(hint ? `${message} (${hint})` : message);
}

function bodyOf(form) {
  const given = Object.fromEntries(new FormData(form));
  const body = { ...given };
  if (given.workloads !== undefined) body.workloads = given.workloads.split(/\s+/).filter(Boolean);
  if (given.trials) body.trials = Number(given.trials);
  else delete body.trials;
  return body;
}

/** What was asked for and has not shown yet, by path: the answer to give until then. */
const asked = new Map();

/** The live parts of a page are replaced again and again; its buttons still know that they were pressed. */
function restore() {
  for (const [path, done] of asked) {
    const button = document.querySelector(`button.action[data-post="${CSS.escape(path)}"]`);
    if (button) {
      button.disabled = true;
      button.parentElement.querySelector(".answer").textContent = done;
    } else {
      asked.delete(path);
    }
  }
}

async function press(button) {
  const { post: path, done } = button.dataset;
  button.disabled = true;
  try {
    await post(path);
    if (!done) location.reload();
    asked.set(path, done);
    restore();
  } catch (error) {
    button.disabled = false;
    button.parentElement.querySelector(".answer").textContent = error.message;
  }
}

export function enableActions() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.action");
    if (button) press(button);
  });
  document.addEventListener("swapped", restore);
  for (const form of document.querySelectorAll("form[data-post]")) enableForm(form);
}

/** A form that begins a run, and then shows it; one with `data-done` says that and stays. */
function enableForm(form) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const answer = form.querySelector(".answer");
    answer.textContent = "";
    try {
      const run = await post(form.dataset.post, bodyOf(form));
      if (form.dataset.done) answer.textContent = form.dataset.done;
      else location.assign(`/runs/${run.id}`);
    } catch (error) {
      answer.textContent = error.message;
    }
  });
}
