/* Elements, numbers, colours and the theme: what all charts use. */
const SVG_NS = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on'))
      node.addEventListener(name.slice(2), value);
    else if (name === 'style')
      node.style.cssText = value; /* an attribute would need a weaker content policy */
    else
      node.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(
    document.createElementNS(SVG_NS, tag), attributes, children.map((c) => (typeof c === 'number' ? String(c) : c)));

/* ---- numbers ---- */

const known = (value) => typeof value === 'number' && isFinite(value);

/* With three or more significant digits and thousands set apart. */
function number(value) {
  if (!known(value)) return '-';
  const size = Math.abs(value);
  const digits = size >= 100 || size === 0 ? 0 :
      size >= 10                           ? 1 :
      size >= 1                            ? 2 :
                                             Math.min(6, 2 - Math.floor(Math.log10(size)));
  return value.toLocaleString('en-US', {minimumFractionDigits: 0, maximumFractionDigits: digits});
}
const whole = (value) => (known(value) ? Math.round(value).toLocaleString('en-US') : '-');
const fixed = (digits) => (value) => known(value) ?
    value.toLocaleString('en-US', {minimumFractionDigits: digits, maximumFractionDigits: digits}) :
    '-';
/* A share that is not quite all never reads as 100 %. */
function percent(share) {
  if (!known(share)) return '-';
  if (share <= 0.99 || share >= 1) return number(Math.round(1e5 * share) / 1e3) + ' %';
  const digits = Math.min(6, Math.max(1, -Math.floor(Math.log10(100 * (1 - share)) + 1e-9)));
  return (Math.floor(100 * share * 10 ** digits + 1e-6) / 10 ** digits).toFixed(digits) + ' %';
}
const count = (n, thing) => whole(n) + ' ' + thing + (n === 1 ? '' : 's');

/* Round values from `low` to `high`, about `most` of them. */
function roundTicks(low, high, most) {
  const raw = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 2.5, 5, 10].find((k) => k * power >= raw * 0.999) || 10);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
    ticks.push(+(i * step).toPrecision(12));
  return ticks;
}

/* 1, 2, 5 of each power of ten where there is room, else the powers. */
function roundLogTicks(low, high, most) {
  for (const parts of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
      for (const part of parts) {
        const tick = +(part * 10 ** e).toPrecision(3);
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
      }
    }
    if (ticks.length <= most + 1 || parts.length === 1) return ticks;
  }
}

/* ---- colours: no two series of a chart share one, and none is the red of a missed deadline ---- */

const LIGHT = [
  '#1f6fd0', '#d97706', '#15803d', '#8b3fd1', '#0e8f9c', '#7c4a1e', '#c2349b', '#7a8200', '#28357f', '#b8930a',
  '#66707e', '#3fa535'
];
const DARK = [
  '#62a8ff', '#ffa347', '#45cf7d', '#be95ff', '#35d3e0', '#cf9a68', '#ff8edb', '#c6d052', '#93a4ff', '#ffe066',
  '#aab4c1', '#a5ea72'
];
const DASHES = ['', '7 3', '2 3', '9 3 2 3', '5 2 1 2', '12 4'];
const MARKERS = ['circle', 'square', 'diamond', 'triangle', 'cross'];

/* The ones after the twelfth vary the twelve in lightness, and are dashed as well. */
function colour(i) {
  const base = isDark() ? DARK : LIGHT, round = Math.floor(i / base.length);
  if (round === 0) return base[i];
  const parts = base[i % base.length].match(/\w\w/g).map((hex) => parseInt(hex, 16));
  const towards = round % 2 === 1 === isDark() ? 0 : 255, share = Math.min(0.62, 0.14 + 0.12 * round);
  return '#' +
      parts.map((part) => Math.round(part + (towards - part) * share).toString(16).padStart(2, '0')).join('');
}
const dash = (i) => DASHES[Math.floor(i / LIGHT.length) % DASHES.length];

function marker(i, x, y, attributes) {
  const r = 3.6;
  switch (MARKERS[i % MARKERS.length]) {
    case 'square':
      return svg('rect', {x: x - r, y: y - r, width: 2 * r, height: 2 * r, ...attributes});
    case 'diamond':
      return svg(
          'path', {d: `M${x} ${y - r - 1}L${x + r + 1} ${y}L${x} ${y + r + 1}L${x - r - 1} ${y}Z`, ...attributes});
    case 'triangle':
      return svg('path', {d: `M${x} ${y - r - 1}L${x + r + 1} ${y + r}L${x - r - 1} ${y + r}Z`, ...attributes});
    case 'cross':
      return svg('path', {
        d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}`,
        ...attributes,
        'stroke-width': 2
      });
    default:
      return svg('circle', {cx: x, cy: y, r, ...attributes});
  }
}

/* ---- text ---- */

const ruler = document.createElement('canvas').getContext('2d');
let family = '';
const measured = new Map(); /* of the usual size; a page draws the same texts again and again */
function widthOf(text, size) {
  if (!size && measured.has(text)) return measured.get(text);
  family = family || getComputedStyle(document.body).fontFamily;
  ruler.font = (size || 12) + 'px ' + family;
  const width = ruler.measureText(text).width;
  if (measured.size > 5000) measured.clear();
  if (!size) measured.set(text, width);
  return width;
}
function shorten(text, width, size) {
  if (widthOf(text, size) <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(text.slice(0, middle) + '\u2026', size) <= width)
      low = middle;
    else
      high = middle - 1;
  }
  return text.slice(0, low) + '\u2026';
}

/* ---- theme ---- */

const systemDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => document.documentElement.dataset.theme === 'dark';
const drawn = [];
const redraw = () => drawn.forEach((draw) => draw());
let chosenTheme = null;

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme || chosenTheme || (systemDark.matches ? 'dark' : 'light');
  const button = document.getElementById('theme');
  button.textContent = isDark() ? 'Light' : 'Dark';
  button.setAttribute('aria-label', 'Show the page in ' + (isDark() ? 'light' : 'dark') + ' colours');
  redraw();
}

function startTheme() {
  document.getElementById('theme').addEventListener('click', () => {
    chosenTheme = isDark() ? 'light' : 'dark';
    applyTheme();
  });
  systemDark.addEventListener('change', () => applyTheme());
  addEventListener('beforeprint', () => applyTheme('light'));
  addEventListener('afterprint', () => applyTheme());
}

/* Draws when `box` is shown, when its width changes, and when the theme does; returns a function that draws again. */
function keepDrawn(box, draw) {
  let width = 0; /* as observed: asking for it would lay the page out once per chart */
  const again = () => {
    width = width || Math.floor(box.clientWidth);
    if (width > 0) draw(width);
  };
  drawn.push(again);
  new ResizeObserver(() => {
    const now = Math.floor(box.clientWidth);
    if (now === width) return;
    width = now;
    if (width > 0) draw(width);
  }).observe(box);
  return again;
}

/* ---- files ---- */

function save(name, type, text) {
  const link = el('a', {href: URL.createObjectURL(new Blob([text], {type})), download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
const fileName = (what, ending) =>
    (document.title + ' ' + what).toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 80) + '.' +
    ending;

const csvField = (value) => {
  const text = value === null || value === undefined ? '' : String(value);
  return /[",\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
};
/* `lines`: arrays of fields, the names of the columns first. */
const saveCsv = (name, lines) =>
    save(fileName(name, 'csv'), 'text/csv', lines.map((line) => line.map(csvField).join(',') + '\n').join(''));
const csvButton = (name, lines) => el(
    'button', {type: 'button', 'aria-label': 'Save as CSV: ' + name, onclick: () => saveCsv(name, lines())}, 'CSV');

/* A chart as a file of its own: the page's styles are written into its elements. */
function savePicture(box, name) {
  const from = box.querySelector('svg'), copy = from.cloneNode(true);
  const all = [from, ...from.querySelectorAll('*')], copies = [copy, ...copy.querySelectorAll('*')];
  const styles =
      ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'font-family', 'font-size', 'font-weight', 'opacity'];
  all.forEach((node, i) => {
    const style = getComputedStyle(node);
    copies[i].style.cssText = styles.map((s) => s + ':' + style.getPropertyValue(s)).join(';');
  });
  copy.setAttribute('xmlns', SVG_NS);
  copy.insertBefore(
      svg('rect', {width: '100%', height: '100%', fill: getComputedStyle(document.body).backgroundColor}),
      copy.firstChild);
  save(fileName(name, 'svg'), 'image/svg+xml', new XMLSerializer().serializeToString(copy));
}
