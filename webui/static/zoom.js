// Pictures that are larger than their frame: buttons make them larger and smaller, the frame scrolls.

const STEP = 1.25;
const LEAST = 0.2;
const MOST = 3;

/** Show the picture at a scale, with the middle of the frame where it was. */
function scaleTo(state, scale) {
  const { svg, frame, width, height } = state;
  const before = state.scale;
  state.scale = Math.min(MOST, Math.max(LEAST, scale));
  const middle = [frame.scrollLeft + frame.clientWidth / 2, frame.scrollTop + frame.clientHeight / 2];
  svg.setAttribute("width", String(Math.round(width * state.scale)));
  svg.setAttribute("height", String(Math.round(height * state.scale)));
  frame.scrollLeft = (middle[0] * state.scale) / before - frame.clientWidth / 2;
  frame.scrollTop = (middle[1] * state.scale) / before - frame.clientHeight / 2;
}

function enable(figure) {
  const svg = figure.querySelector("svg[data-zoom]");
  const frame = figure.querySelector(".frame");
  const { width, height } = svg.viewBox.baseVal;
  const state = { svg, frame, width, height, scale: 1 };
  const whole = () => Math.min(1, (frame.clientWidth - 2) / width, (frame.clientHeight - 2) / height);
  const actions = { in: () => state.scale * STEP, out: () => state.scale / STEP, all: whole, full: () => 1 };
  const buttons = figure.querySelector(".choice");
  buttons.hidden = false;
  buttons.addEventListener("click", (event) => {
    const action = actions[event.target.dataset?.zoom];
    if (action) scaleTo(state, action());
  });
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    scaleTo(state, event.deltaY < 0 ? state.scale * STEP : state.scale / STEP);
  }, { passive: false });
}

for (const figure of document.querySelectorAll("figure.zoomed")) enable(figure);
