#include "tril/report/plot_page.h"

namespace tril {

const char* const kPlotScript = R"js(
'use strict';
const find = id => document.getElementById(id);
const data = JSON.parse(find('data').textContent);
const chart = find('chart'), tip = find('tip'), quantity = find('quantity'), axis = find('axis');
const logarithmic = find('logarithmic'), smooth = find('smooth'), whole = find('whole');
const boxes = [...document.querySelectorAll('#runs input')];
const colorOf = i => `var(--run${i % 8})`;

// Columns of the log: of every step, and of the steps that were evaluated.
const quantities = [
  {name: 'loss (nats a token)', training: 'loss_nats', validation: 'validation_loss_nats', smooth: true},
  {name: 'bits per byte of validation text', validation: 'bits_per_byte'},
  {name: 'gradient norm', training: 'gradient_norm', smooth: true},
  {name: 'learning rate', training: 'learning_rate'},
  {name: 'tokens per second', training: 'tokens_per_s', smooth: true},
].filter(q => data.runs.some(run => ['training', 'validation'].some(
  kind => q[kind] && run[kind][q[kind]].some(value => value !== null))));

// With n steps between two points:  sum = w^n sum + (1 - w^n) y;  weight = w^n weight + (1 - w^n).
function smoothed(steps, values, w) {
  let sum = 0, weight = 0, before = null;
  return values.map((y, k) => {
    if (y === null) return null;
    const past = w ** (before === null ? 1 : steps[k] - before);
    sum = past * sum + (1 - past) * y;
    weight = past * weight + (1 - past);
    before = steps[k];
    return sum / weight;
  });
}

function makeCurves() {
  const q = quantities[quantity.value], curves = [];
  data.runs.forEach((run, i) => {
    if (!boxes[i].checked) return;
    for (const kind of ['training', 'validation']) {
      if (!q[kind]) continue;
      const columns = run[kind], raw = columns[q[kind]], xs = columns[axis.value];
      const w = kind === 'training' && q.smooth ? Number(smooth.value) : 0;
      const points = [];
      smoothed(columns.step, raw, w).forEach((y, k) => {
        if (y === null || xs[k] === null || (logarithmic.checked && y <= 0)) return;
        points.push({x: xs[k], y, raw: raw[k], step: columns.step[k]});
      });
      if (points.length) curves.push({name: run.name, kind, color: colorOf(i), points});
    }
  });
  return curves;
}

function unitOf(highest) {
  if (axis.value === 'seconds')
    return highest >= 7200 ? [3600, 'hours of training'] : highest >= 120 ? [60, 'minutes of training'] : [1, 'seconds of training'];
  if (axis.value === 'tokens')
    return highest >= 1e9 ? [1e9, 'billions of tokens'] : highest >= 1e6 ? [1e6, 'millions of tokens'] : [1, 'tokens'];
  return [1, 'steps'];
}

// Multiples of 1, 2 or 5 times a power of ten.
function roundTicks(low, high, count) {
  const least = (high - low) / count, power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= least * (1 - 1e-9)), ticks = [];
  const first = Math.ceil(low / step - 1e-9);
  for (let i = 0; i <= 2 * count && (first + i) * step <= high + 1e-9 * step; ++i) ticks.push((first + i) * step);
  return ticks;
}
function logarithmicTicks(low, high) {
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); ++e)
    for (const f of [1, 2, 5]) if (f * 10 ** e >= low && f * 10 ** e <= high) ticks.push(f * 10 ** e);
  return ticks.length > 2 ? ticks : roundTicks(low, high, 6);
}
const short = value => String(Number(value.toPrecision(5)));

let curves = [], zoom = null, view = null;  // view: pixels from values and back

function add(name, attributes, words) {
  const made = document.createElementNS(chart.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (words !== undefined) made.textContent = words;
  chart.append(made);
  return made;
}

function makeView() {
  const box = chart.getBoundingClientRect();
  const left = 62, right = box.width - 12, top = 10, bottom = box.height - 42;
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const {points} of curves) x0 = Math.min(x0, points[0].x), x1 = Math.max(x1, points[points.length - 1].x);
  if (zoom) [x0, x1] = zoom;
  for (const {points} of curves)
    for (const p of points) if (p.x >= x0 && p.x <= x1) y0 = Math.min(y0, p.y), y1 = Math.max(y1, p.y);
  if (x0 === x1) x0 -= 1, x1 += 1;
  if (y0 > y1) y0 = 1, y1 = 2;
  const log = logarithmic.checked, on = log ? Math.log10 : y => y, from = log ? y => 10 ** y : y => y;
  const spread = on(y1) - on(y0), flat = spread <= 1e-9 * Math.max(Math.abs(on(y0)), Math.abs(on(y1)));
  const room = flat ? Math.abs(on(y0)) * 0.01 || 0.01 : spread * 0.04;
  const low = on(y0) - room, high = on(y1) + room;
  return {
    left, right, top, bottom, x0, x1, y0: from(low), y1: from(high),
    x: value => left + (value - x0) / (x1 - x0) * (right - left),
    y: value => bottom - (on(value) - low) / (high - low) * (bottom - top),
    xOf: pixel => x0 + (Math.max(left, Math.min(right, pixel)) - left) / (right - left) * (x1 - x0),
  };
}

function drawAxes() {
  const v = view, [size, unit] = unitOf(v.x1);
  const ys = logarithmic.checked ? logarithmicTicks(v.y0, v.y1) : roundTicks(v.y0, v.y1, 6);
  for (const y of ys) {
    add('line', {class: 'grid', x1: v.left, x2: v.right, y1: v.y(y), y2: v.y(y)});
    add('text', {x: v.left - 8, y: v.y(y) + 4, 'text-anchor': 'end'}, short(y));
  }
  for (const tick of roundTicks(v.x0 / size, v.x1 / size, Math.max(2, (v.right - v.left) / 110))) {
    const x = v.x(tick * size);
    add('line', {class: 'grid', x1: x, x2: x, y1: v.top, y2: v.bottom});
    add('text', {x, y: v.bottom + 17, 'text-anchor': 'middle'}, short(tick));
  }
  add('rect', {class: 'frame', x: v.left, y: v.top, width: Math.max(0, v.right - v.left), height: Math.max(0, v.bottom - v.top)});
  add('text', {x: (v.left + v.right) / 2, y: v.bottom + 35, 'text-anchor': 'middle'}, unit);
}

// Of the points outside the view the nearest on both sides, which end the curve at its edge.
function visible(points) {
  const first = points.findIndex(p => p.x >= view.x0), after = points.findIndex(p => p.x > view.x1);
  return first < 0 ? [] : points.slice(Math.max(0, first - 1), after < 0 ? undefined : after + 1);
}

function draw() {
  find('weight').textContent = smooth.value;
  curves = makeCurves();
  view = makeView();
  chart.replaceChildren();
  tip.hidden = true;
  drawAxes();
  const clip = add('clipPath', {id: 'inside'});
  clip.append(add('rect', {x: view.left, y: view.top, width: Math.max(0, view.right - view.left), height: Math.max(0, view.bottom - view.top)}));
  for (const {kind, color, points} of curves) {
    const seen = visible(points), place = seen.map(p => view.x(p.x).toFixed(1) + ' ' + view.y(p.y).toFixed(1));
    add('path', {class: 'curve ' + kind, d: 'M' + place.join('L'), stroke: color, 'clip-path': 'url(#inside)'});
    if (kind === 'training' ? seen.length > 1 : seen.length > 200) continue;
    for (const p of seen)
      add('circle', {cx: view.x(p.x), cy: view.y(p.y), r: 3, fill: color, 'clip-path': 'url(#inside)'});
  }
  whole.hidden = !zoom;
  document.body.dataset.drawn = curves.length;
}

function nearest(points, x) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle].x < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - points[low - 1].x < points[low].x - x ? points[low - 1] : points[low];
}

function line(words, value, color) {
  const row = document.createElement('div'), left = document.createElement('span'), right = document.createElement('b');
  const key = document.createElement('i');
  key.className = 'key';
  key.style.background = color;
  left.append(key, ' ' + words);
  right.textContent = value;
  row.append(left, right);
  return row;
}

let from = null;  // where a drag began, in pixels
const pixel = event => event.clientX - chart.getBoundingClientRect().left;

function point(event) {
  const x = view.xOf(pixel(event));
  chart.querySelectorAll('.hover').forEach(each => each.remove());
  if (!curves.length) return;
  add('line', {class: 'cursor hover', x1: view.x(x), x2: view.x(x), y1: view.top, y2: view.bottom});
  if (from !== null) {
    const [a, b] = [view.x(view.xOf(from)), view.x(x)];
    add('rect', {class: 'zoom hover', x: Math.min(a, b), y: view.top, width: Math.abs(b - a), height: view.bottom - view.top});
  }
  tip.replaceChildren();
  for (const {name, kind, color, points} of curves) {
    const p = nearest(points, x), same = p.raw === p.y;
    add('circle', {class: 'hover', cx: view.x(p.x), cy: view.y(p.y), r: 4, fill: color});
    tip.append(line(`${data.runs.length > 1 ? name + ', ' : ''}${kind}, step ${p.step}`,
                    short(p.y) + (same ? '' : ` (${short(p.raw)})`), color));
  }
  tip.hidden = false;
  const size = tip.getBoundingClientRect(), beside = event.clientX + 16;
  tip.style.left = Math.max(4, beside + size.width < innerWidth ? beside : event.clientX - size.width - 16) + 'px';
  tip.style.top = Math.max(4, Math.min(event.clientY + 12, innerHeight - size.height - 4)) + 'px';
}

chart.addEventListener('pointermove', point);
chart.addEventListener('pointerdown', event => { from = pixel(event); point(event); });
addEventListener('pointerup', event => {
  if (from === null) return;
  const [a, b] = [view.xOf(from), view.xOf(pixel(event))].sort((p, q) => p - q);
  from = null;
  if (view.x(b) - view.x(a) < 8) return;
  zoom = [a, b];
  draw();
});
chart.addEventListener('pointerleave', () => {
  tip.hidden = true;
  chart.querySelectorAll('.hover').forEach(each => each.remove());
});
const reset = () => { zoom = null; draw(); };
whole.addEventListener('click', reset);
chart.addEventListener('dblclick', reset);
axis.addEventListener('change', reset);
for (const each of [quantity, logarithmic, smooth, ...boxes]) each.addEventListener('input', draw);
addEventListener('resize', draw);

quantities.forEach((q, i) => quantity.append(new Option(q.name, i)));
document.querySelectorAll('#runs .key').forEach((key, i) => { key.style.background = colorOf(i); });
axis.value = data.x;
smooth.value = data.smooth;
draw();
)js";

}  // namespace tril
