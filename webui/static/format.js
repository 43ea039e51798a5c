// Numbers as webui/format.py writes them.

export const DASH = "–";

function three(value) {
  if (value === 0) return "0";
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/** Seconds as 850 ns, 12.3 µs, 1.23 ms, 45.6 s, 4 min 05 s, 2 h 13 min. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return DASH;
  for (const [scale, unit] of [[1e-9, "ns"], [1e-6, "µs"], [1e-3, "ms"], [1, "s"]]) {
    if (seconds < 59.95 && seconds < 999.5 * scale) return `${three(seconds / scale)} ${unit}`;
  }
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(minutes / 1440)} days ${Math.floor(minutes / 60) % 24} h`;
}

/** Operations a second as 123 GFLOP/s. */
export function rate(perSecond) {
  for (const [scale, unit] of [[1e12, "TFLOP/s"], [1e9, "GFLOP/s"], [1e6, "MFLOP/s"]]) {
    if (perSecond >= 0.9995 * scale) return `${three(perSecond / scale)} ${unit}`;
  }
  return `${three(perSecond / 1e3)} kFLOP/s`;
}

/** The rate where the operations are known, else the time. */
export function speed(flops, seconds) {
  if (!seconds) return DASH;
  return flops ? rate(flops / seconds) : duration(seconds);
}

/** How many times faster. */
export function times(slow, fast) {
  return slow && fast ? `${three(slow / fast)}×` : DASH;
}
