#include "tril/report/attention_page.h"

namespace tril {

const char* const kAttentionScript = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const tokens = [...document.querySelectorAll('.token')];
const T = tokens.length, columns = data.heads.length;
const find = id => document.getElementById(id);
const text = find('text'), tip = find('tip'), grid = find('grid'), large = find('large'), mean = find('mean');
const canvas = large.querySelector('canvas');
const darkScheme = matchMedia('(prefers-color-scheme: dark)');

// A map is the lower triangle, row by row: query i with key j stands at i (i + 1) / 2 + j. A byte b of the data
// is the weight (b / 255)^2; heat is the square root of a weight, the strength of its colour.
const maps = data.maps.map(text => Uint8Array.from(atob(text), c => c.charCodeAt(0)));
const at = (i, j) => i * (i + 1) / 2 + j;
let meanMap = null;
function meanOfMaps() {
  if (meanMap) return meanMap;
  meanMap = new Float32Array(at(T, 0));
  for (const map of maps)
    for (let k = 0; k < map.length; ++k) meanMap[k] += (map[k] / 255) ** 2 / maps.length;
  for (let k = 0; k < meanMap.length; ++k) meanMap[k] = 255 * Math.sqrt(meanMap[k]);
  return meanMap;
}

let selected = 0;   // index of a map; -1: the mean
let query = -1;     // the token whose looks are shown
let held = false;
const current = () => selected < 0 ? meanOfMaps() : maps[selected];
const weight = (i, j) => j > i ? 0 : (current()[at(i, j)] / 255) ** 2;
const nameOf = m => `layer ${data.layers[Math.floor(m / columns)]}, head ${data.heads[m % columns]}`;
const percent = w => (100 * w).toFixed(w < 0.0995 ? 1 : 0) + ' %';

// Colours of heat 0 to 1 in 256 steps, linear between those of the data.
let ramp = [];
function makeRamp() {
  const colors = darkScheme.matches ? data.dark : data.light;
  ramp = [...Array(256).keys()].map(b => {
    const place = b / 255 * (colors.length - 1), k = Math.min(Math.floor(place), colors.length - 2);
    return colors[k].map((c, channel) => Math.round(c + (place - k) * (colors[k + 1][channel] - c)));
  });
  const css = colors.map(color => `rgb(${color})`).join(', ');
  find('scale').style.background = `linear-gradient(to right, ${css})`;
}

// Draws `map` with at most `most` squares a side; one square then shows the strongest weight in it.
function draw(canvas, map, most) {
  const size = Math.min(T, most), image = new ImageData(size, size), strongest = new Uint8Array(size * size);
  for (let i = 0; i < T; ++i) {
    for (let j = 0; j <= i; ++j) {
      const pixel = Math.floor(i * size / T) * size + Math.floor(j * size / T);
      strongest[pixel] = Math.max(strongest[pixel], Math.round(map[at(i, j)]));
    }
  }
  strongest.forEach((b, pixel) => { image.data.set([...ramp[b], 255], 4 * pixel); });
  canvas.width = canvas.height = size;
  canvas.getContext('2d').putImageData(image, 0, 0);
}

function drawAll() {
  makeRamp();
  const small = grid.querySelectorAll('canvas');
  small.forEach((each, m) => draw(each, maps[m], 96));
  select(selected);
  document.body.dataset.drawn = small.length;
}

function makeGrid() {
  const name = (words) => {
    const label = document.createElement('div');
    label.className = 'name';
    label.textContent = words;
    grid.append(label);
  };
  grid.style.gridTemplateColumns = `auto repeat(${columns}, minmax(0, ${columns > 2 ? 150 : 220}px))`;
  name('');
  for (const head of data.heads) name(columns > 8 ? head : `head ${head}`);
  data.layers.forEach((layer, row) => {
    name(columns > 8 ? layer : `layer ${layer}`);
    for (let column = 0; column < columns; ++column) {
      const m = row * columns + column, button = document.createElement('button');
      button.title = nameOf(m);
      button.setAttribute('aria-label', nameOf(m));
      button.append(document.createElement('canvas'));
      button.addEventListener('click', () => select(m));
      grid.append(button);
    }
  });
}

function select(m) {
  selected = m;
  grid.querySelectorAll('button').forEach((each, k) => each.setAttribute('aria-pressed', k === m));
  mean.setAttribute('aria-pressed', m < 0);
  const words = m < 0 ? `mean of ${maps.length} heads` : nameOf(m);
  document.querySelectorAll('.which').forEach(each => { each.textContent = words; });
  draw(canvas, current(), 1024);
  shade();
}

function shade() {
  tokens.forEach((token, j) => {
    const w = query < 0 ? 0 : weight(query, j);
    const color = ramp[Math.round(255 * Math.sqrt(w))], bright = color[0] * 0.3 + color[1] * 0.6 + color[2] * 0.1;
    token.style.background = w > 0 ? `rgb(${color})` : '';
    token.style.color = w > 0 ? (bright > 120 ? '#14161a' : '#ffffff') : '';
    token.classList.toggle('query', j === query);
    token.classList.toggle('later', query >= 0 && j > query);
    if (query < 0) delete token.dataset.weight;
    else token.dataset.weight = w.toFixed(4);
  });
  const row = find('row');
  row.hidden = query < 0;
  row.style.top = 100 * query / T + '%';
  row.style.height = 100 / T + '%';
  document.body.dataset.query = query;
}

function show(i) {
  query = i;
  tokens.forEach((token, j) => { token.tabIndex = j === Math.max(i, 0) ? 0 : -1; });
  shade();
}

function line(words, value) {
  const row = document.createElement('div'), left = document.createElement('span'), right = document.createElement('b');
  left.textContent = words;
  right.textContent = value;
  row.append(left, right);
  return row;
}
const quoted = j => `\u201c${tokens[j].textContent.replace(/[\n\t]/g, '')}\u201d`;

// Below the token or pointer, or above where there is no room.
function place(box) {
  tip.hidden = false;
  const size = tip.getBoundingClientRect();
  const below = box.bottom + 8, fits = below + size.height < innerHeight;
  tip.style.top = Math.max(4, fits ? below : box.top - size.height - 8) + 'px';
  tip.style.left = Math.max(4, Math.min(box.left, innerWidth - size.width - 4)) + 'px';
}

// What query i looks at most; with j, that one's weight alone.
function explain(i, j, box) {
  const keys = j === undefined ? [...Array(i + 1).keys()].sort((a, b) => weight(i, b) - weight(i, a)).slice(0, 5) : [j];
  tip.replaceChildren(line(`${quoted(i)} (token ${i}) looks at`, ''));
  for (const key of keys) tip.append(line(`${quoted(key)} (${key})`, key > i ? 'later: hidden' : percent(weight(i, key))));
  place(box);
}

function leave() {
  tip.hidden = true;
  if (!held) show(-1);
}

function point(j) {
  const box = tokens[j].getBoundingClientRect();
  if (held && j !== query) return explain(query, j, box);
  show(j);
  explain(j, undefined, box);
}

function hold(j) {
  const release = held && j === query;
  held = false;
  point(j);
  held = !release;
}

const indexOf = event => tokens.indexOf(event.target.closest('.token'));
text.addEventListener('pointerover', event => {
  if (event.pointerType !== 'touch' && indexOf(event) >= 0) point(indexOf(event));
});
text.addEventListener('pointerleave', event => { if (event.pointerType !== 'touch') leave(); });
text.addEventListener('click', event => { if (indexOf(event) >= 0) hold(indexOf(event)); });
text.addEventListener('focusin', event => {
  if (event.target.matches('.token:focus-visible')) point(indexOf(event));
});
text.addEventListener('keydown', event => {
  const j = indexOf(event), steps = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, Home: -T, End: T};
  if (j < 0) return;
  if (event.key in steps) {
    const next = Math.max(0, Math.min(T - 1, j + steps[event.key]));
    held = false;
    tokens[next].focus();
    point(next);
  } else if (event.key === 'Enter' || event.key === ' ') {
    hold(j);
  } else {
    return;
  }
  event.preventDefault();
});
document.addEventListener('keydown', event => {
  if (event.key !== 'Escape') return;
  held = false;
  leave();
});

large.addEventListener('pointermove', event => {
  const box = canvas.getBoundingClientRect();
  const cell = (value, from, size) => Math.max(0, Math.min(T - 1, Math.floor((value - from) / size * T)));
  const i = cell(event.clientY, box.top, box.height), j = cell(event.clientX, box.left, box.width);
  held = false;
  show(i);
  explain(i, j, {left: event.clientX + 14, top: event.clientY, bottom: event.clientY});
});
large.addEventListener('pointerleave', leave);
mean.addEventListener('click', () => select(selected < 0 ? 0 : -1));
darkScheme.addEventListener('change', drawAll);
addEventListener('scroll', () => { tip.hidden = true; }, true);

mean.hidden = maps.length < 2;
makeGrid();
drawAll();
show(-1);
)js";

}  // namespace tril
