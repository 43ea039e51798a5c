// A best-so-far curve as SVG: trials as dots, failures as ticks at the foot, the untuned cost as a dashed line.
// Where the operations are known the vertical axis is their rate, so up is better; else it is the time.

import { duration, speed, times } from "./format.js";

const NS = "http://www.w3.org/2000/svg";
const LEFT = 46;
const RIGHT = 14;
const TOP = 18;
const FOOT = 38;
const FAIL_BAND = 12;

function make(name, attributes, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Round numbers from 0 or so to at least `top`: about `count` of them. */
export function ticks(bottom, top, count) {
  const raw = (top - bottom) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let i = Math.ceil(bottom / step - 1e-9); i * step <= top * (1 + 1e-9); i += 1) found.push(i * step);
  return found;
}

export class Chart {
  constructor(figure) {
    this.plot = figure.querySelector(".plot");
    this.readout = figure.querySelector(".readout");
    this.axis = "trial";
    this.chosen = null;
    this.svg = make("svg", { role: "img", tabindex: "0" });
    this.plot.replaceChildren(this.svg);
    this.measure();
    new ResizeObserver(() => this.measure() && this.draw()).observe(this.plot);
    figure.querySelector(".numbers").hidden = false;
    this.numbers = figure.querySelector(".numbers tbody");
    this.svg.addEventListener("pointermove", (event) => this.chooseNear(event));
    this.svg.addEventListener("pointerleave", () => this.choose(null));
    this.svg.addEventListener("keydown", (event) => this.onKey(event));
    this.svg.addEventListener("blur", () => this.choose(null));
  }

  /** One unit of the drawing is one pixel. True when the size changed. */
  measure() {
    const width = Math.max(240, this.plot.clientWidth);
    const height = Math.max(160, this.plot.clientHeight);
    if (width === this.width && height === this.height) return false;
    [this.width, this.height] = [width, height];
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    return true;
  }

  setData(curve) {
    this.task = curve.task;
    this.points = curve.points;
    this.trials = curve.trials;
    this.draw();
  }

  setTask(task) { this.task = task; }

  setAxis(axis) {
    this.axis = axis;
    this.draw();
  }

  addPoint(point) {
    if (!this.points.length || point.sequence > this.points.at(-1).sequence) this.points.push(point);
  }

  addTrial(trial) {
    if (!this.trials.length || trial.sequence > this.trials.at(-1).sequence) this.trials.push(trial);
  }

  // where things go

  x(entry) { return this.axis === "trial" ? entry.sequence : entry.elapsed_s; }

  /** What the vertical axis shows of a cost: operations a second, or seconds. */
  y(cost) { return this.task.flops ? this.task.flops / cost : cost; }

  scales() {
    const entries = [...this.points, ...this.trials];
    const right = Math.max(...entries.map((e) => this.x(e)), this.axis === "trial" ? 8 : 1);
    const left = this.axis === "trial" ? Math.min(...entries.map((e) => this.x(e)), right - 1) : 0;
    const best = this.points.map((p) => this.y(p.cost_s));
    const values = [...best, ...(this.task.baseline_cost_s ? [this.y(this.task.baseline_cost_s)] : [])];
    let top = Math.max(...values, 1e-12);
    // a time axis leaves out the slow ones, which would flatten all the rest
    if (!this.task.flops && best.length) top = Math.min(top, 4 * Math.min(...best));
    top *= 1.18; // room for the label above the line
    const bottom = this.height - FOOT - FAIL_BAND;
    return {
      left, right, top,
      px: (v) => LEFT + ((v - left) / (right - left || 1)) * (this.width - LEFT - RIGHT),
      py: (v) => bottom - (Math.min(v, top) / top) * (bottom - TOP),
      bottom,
    };
  }

  // drawing

  draw() {
    if (!this.task) return;
    this.svg.replaceChildren();
    this.describe();
    if (!this.points.length) {
      const text = this.trials.length ? "no trial has succeeded yet" : "no trials yet";
      const place = { x: this.width / 2, y: this.height / 2, "text-anchor": "middle", class: "empty" };
      this.svg.append(make("text", place, text));
      if (!this.trials.length) return;
    }
    const s = this.scales();
    if (this.points.length) this.drawGrid(s);
    this.drawAxis(s);
    this.drawTrials(s);
    this.drawUntuned(s);
    this.drawBest(s);
    this.cursor = make("line", { class: "cursor", y1: TOP, y2: s.bottom, visibility: "hidden" });
    this.svg.append(this.cursor);
    this.listNumbers();
    if (this.chosen !== null) this.choose(Math.min(this.chosen, this.points.length - 1));
  }

  drawGrid(s) {
    for (const value of ticks(0, s.top, 4)) {
      const y = s.py(value);
      this.svg.append(make("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
      this.svg.append(make("text", { x: LEFT - 7, y: y + 4, "text-anchor": "end" }, this.tickLabel(value, s.top)));
    }
    this.svg.append(make("text", { x: 4, y: TOP - 3 }, this.unit(s.top)[0]));
  }

  drawAxis(s) {
    const foot = this.height - FOOT + 2;
    this.svg.append(make("line", { class: "axis", x1: LEFT, x2: this.width - RIGHT, y1: foot, y2: foot }));
    for (const value of ticks(s.left, s.right, 6)) {
      if (this.axis === "trial" && !Number.isInteger(value)) continue;
      const label = this.axis === "trial" ? String(value) : value === 0 ? "0" : duration(value).replace(/\.0+ /, " ");
      this.svg.append(make("text", { x: s.px(value), y: foot + 15, "text-anchor": "middle" }, label));
    }
    const unit = this.axis === "trial" ? "trial" : "time since the start";
    this.svg.append(make("text", { x: (LEFT + this.width - RIGHT) / 2, y: this.height - 4, "text-anchor": "middle" }, unit));
  }

  /** The axis's unit and its size. */
  unit(top) {
    const units = this.task.flops
      ? [["TFLOP/s", 1e12], ["GFLOP/s", 1e9], ["MFLOP/s", 1e6], ["kFLOP/s", 1e3]]
      : [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]];
    return units.find(([, size]) => top >= size) ?? units.at(-1);
  }

  tickLabel(value, top) { return String(Number((value / this.unit(top)[1]).toPrecision(3))); }

  drawTrials(s) {
    const foot = this.height - FOOT;
    for (const trial of this.trials) {
      const x = s.px(this.x(trial));
      if (trial.cost_s === null) {
        this.svg.append(make("line", { class: "fail", x1: x, x2: x, y1: foot - FAIL_BAND + 4, y2: foot }));
      } else {
        const value = this.y(trial.cost_s);
        if (value <= s.top) this.svg.append(make("circle", { class: "trial", cx: x, cy: s.py(value), r: 2.2 }));
      }
    }
  }

  drawUntuned(s) {
    const cost = this.task.baseline_cost_s;
    if (!cost || this.y(cost) > s.top) return;
    const y = s.py(this.y(cost));
    this.svg.append(make("line", { class: "untuned", x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
    const label = `${this.task.baseline || "untuned"} ${speed(this.task.flops, cost)}`;
    this.svg.append(make("text", { class: "untuned-label halo", x: this.width - RIGHT, y: y - 5, "text-anchor": "end" }, label));
  }

  drawBest(s) {
    if (!this.points.length) return;
    const at = (p) => [s.px(this.x(p)), s.py(this.y(p.cost_s))];
    let path = "";
    for (const [i, point] of this.points.entries()) {
      const [x, y] = at(point);
      path += i === 0 ? `M${x},${y}` : `H${x}V${y}`;
    }
    path += `H${s.px(s.right)}`;
    this.svg.append(make("path", { class: "best", d: path }));
    for (const point of this.points) {
      const [cx, cy] = at(point);
      this.svg.append(make("circle", { class: "step", cx, cy, r: 3.2 }));
    }
    const last = this.points.at(-1);
    const place = { class: "best-label halo", x: this.width - RIGHT, y: at(last)[1] - 8, "text-anchor": "end" };
    this.svg.append(make("text", place, speed(this.task.flops, last.cost_s)));
  }

  /** The picture in words, for whoever cannot see it. */
  describe() {
    const last = this.points.at(-1);
    const failed = this.task.failed ? `, ${this.task.failed} failed` : "";
    const text = last
      ? `Best so far of ${this.task.workload_name}: ${speed(this.task.flops, last.cost_s)} after ${this.task.trials} trials` +
        `${failed}; found at trial ${last.sequence}` +
        (this.task.baseline_cost_s ? `, ${times(this.task.baseline_cost_s, last.cost_s)} ${this.task.baseline || "the untuned speed"}` : "") +
        ". Arrow keys step through the improvements."
      : `${this.task.workload_name}: nothing measured yet${failed}.`;
    this.svg.setAttribute("aria-label", text);
  }

  listNumbers() {
    if (this.numbers.children.length === this.points.length) return;
    const rows = this.points.map((point) => {
      const row = document.createElement("tr");
      for (const value of [point.sequence, duration(point.elapsed_s), speed(this.task.flops, point.cost_s)]) {
        const cell = document.createElement("td");
        cell.textContent = value;
        row.append(cell);
      }
      return row;
    });
    this.numbers.replaceChildren(...rows);
  }

  // looking closer

  choose(index) {
    this.chosen = index;
    const point = index === null ? null : this.points[index];
    if (!point) {
      this.cursor?.setAttribute("visibility", "hidden");
      this.readout.textContent = "";
      return;
    }
    const x = this.scales().px(this.x(point));
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, x);
    this.cursor.setAttribute("visibility", "visible");
    const gain = this.task.baseline_cost_s ? `, ${times(this.task.baseline_cost_s, point.cost_s)} ${this.task.baseline || "the untuned"}` : "";
    const cost = this.task.flops ? ` (${duration(point.cost_s)})` : "";
    this.readout.textContent =
      `trial ${point.sequence}, after ${duration(point.elapsed_s)}: ${speed(this.task.flops, point.cost_s)}${cost}${gain}`;
  }

  chooseNear(event) {
    if (!this.points?.length) return;
    const box = this.svg.getBoundingClientRect();
    const s = this.scales();
    const at = ((event.clientX - box.left) / box.width) * this.width;
    let index = 0;
    this.points.forEach((point, i) => { if (s.px(this.x(point)) <= at + 3) index = i; });
    this.choose(index);
  }

  onKey(event) {
    if (!this.points?.length) return;
    const last = this.points.length - 1;
    const from = this.chosen ?? (event.key === "ArrowLeft" ? last + 1 : -1);
    const moves = { ArrowRight: from + 1, ArrowLeft: from - 1, Home: 0, End: last };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.choose(Math.max(0, Math.min(last, moves[event.key])));
  }
}
