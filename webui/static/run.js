// One run: curves from the API, kept current by server-sent events; the rest of the page by refresh().

import { Chart } from "./chart.js";
import { refresh, say } from "./live.js";

const curves = document.getElementById("curves");
const base = `/api/v1/runs/${curves.dataset.run}`;
const charts = new Map();

function eachChart(action) {
  for (const chart of charts.values()) action(chart);
}

async function load() {
  const response = await fetch(`${base}/curve`, { cache: "no-store" });
  if (!response.ok) throw new Error(String(response.status));
  const reply = await response.json();
  for (const figure of curves.querySelectorAll(".curve")) {
    const curve = reply.curves.find((c) => String(c.task.id) === figure.dataset.task);
    if (!curve) continue;
    const chart = charts.get(curve.task.id) ?? new Chart(figure);
    chart.setData(curve);
    charts.set(curve.task.id, chart);
  }
  return reply;
}

/** At most one refresh a second, the last request always honoured. */
let wanted = false;
let waiting = false;
function refreshSoon() {
  wanted = true;
  if (waiting) return;
  waiting = true;
  wanted = false;
  refresh().finally(() => setTimeout(() => {
    waiting = false;
    if (wanted) refreshSoon();
  }, 1000));
}

function follow(started, sequence) {
  const events = new EventSource(`${base}/events?after=${sequence}`);
  const on = (name, action) => events.addEventListener(name, (event) => action(JSON.parse(event.data)));
  events.onopen = () => say("live");
  events.onerror = () => say("connection lost, trying again", true);
  on("trials", (trials) => {
    for (const trial of trials) {
      const elapsed = (Date.parse(trial.finished_at) - started) / 1000;
      if (trial.purpose !== "baseline") {
        charts.get(trial.task)?.addTrial({ sequence: trial.sequence, elapsed_s: elapsed, cost_s: trial.cost_s });
      }
    }
    eachChart((chart) => chart.draw());
    refreshSoon();
  });
  on("best", (point) => charts.get(point.task)?.addPoint(point));
  on("progress", (progress) => {
    for (const task of progress.tasks) charts.get(task.id)?.setTask(task);
    eachChart((chart) => chart.draw());
    refreshSoon();
  });
  on("end", () => {
    events.close();
    say("");
    refreshSoon();
  });
}

function enableAxisChoice() {
  const choice = document.getElementById("axis");
  choice.hidden = false;
  choice.addEventListener("click", (event) => {
    const axis = event.target.dataset?.axis;
    if (!axis) return;
    for (const button of choice.children) button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
    eachChart((chart) => chart.setAxis(axis));
  });
}

try {
  const run = await (await fetch(base, { cache: "no-store" })).json();
  const reply = await load();
  enableAxisChoice();
  if (reply.state === "running" || reply.state === "queued") follow(Date.parse(run.started_at), reply.sequence);
  else if (document.querySelector("#run-head .badge").textContent.trim() !== reply.state) refresh(); // it ended meanwhile
} catch {
  say("the curves could not be loaded; reload the page", true);
}
