/* Lines over two axes: figures along a parameter, and distributions. */

/* The frame of every chart: heading, picture, and the box that shows values. */
function chartBox(name, about, lines) {
  const plot = el('div', {class: 'plot'});
  const tip = el('div', {class: 'tip', role: 'status', hidden: ''});
  const button =
      el('button', {type: 'button', 'aria-label': 'Save as SVG: ' + name, onclick: () => savePicture(plot, name)},
         'SVG');
  const figure =
      el('figure', {'aria-label': name},
         el('div', {class: 'bar'}, el('h3', {}, name), lines ? csvButton(name, lines) : '', button), plot);
  if (about) figure.append(el('p', {class: 'note'}, about));
  return {figure, plot, tip};
}

function showTip(tip, x, y, width, rows) {
  tip.replaceChildren(...rows);
  tip.hidden = false;
  const left = x + 14 + tip.offsetWidth < width ? x + 14 : x - 14 - tip.offsetWidth;
  tip.style.left = Math.max(0, Math.min(left, width - tip.offsetWidth)) + 'px';
  tip.style.top = Math.max(0, y) + 'px';
}

function makeScale(low, high, from, to, isLog) {
  const at = isLog ? Math.log10 : (v) => v, a = at(low), b = at(high);
  const scale = (v) => from + ((to - from) * (at(isLog ? Math.max(v, low) : v) - a)) / (b - a || 1);
  scale.back = (pixel) => {
    const v = a + ((b - a) * (pixel - from)) / (to - from);
    return isLog ? 10 ** v : v;
  };
  return scale;
}

/* Low and high end of an axis, and whether it is logarithmic; `ratio`: from which spread on; `most`: the
 * largest spread that is shown. */
function extent(values, ratio, most) {
  const positive = values.filter((v) => v > 0);
  const high = Math.max(...values, 0), least = positive.length ? Math.min(...positive) : 0;
  const isLog = ratio > 0 && least > 0 && high / least > ratio;
  if (isLog) return {low: Math.max(least, high / (most || 1e5)) / 1.08, high: high * 1.08, isLog};
  return {low: Math.min(0, ...values), high: high > 0 ? high * 1.04 : 1, isLog};
}

/* Moves places (ascending) apart by `gap`, within low .. high. */
function spread(places, gap, low, high) {
  const out = places.slice();
  for (let i = 0; i < out.length; i++) out[i] = Math.max(out[i], i ? out[i - 1] + gap : low);
  for (let i = out.length - 1; i >= 0; i--) out[i] = Math.min(out[i], i < out.length - 1 ? out[i + 1] - gap : high);
  return out;
}

/* Of ticks in order those whose labels have room; the first and the last come before others. */
function withRoom(ticks, placeOf, labelOf, gap) {
  const kept = [], half = (t) => widthOf(labelOf(t)) / 2;
  const fits = (t) => kept.every((k) => Math.abs(placeOf(k) - placeOf(t)) >= half(k) + half(t) + gap);
  for (const t of [ticks[0], ticks[ticks.length - 1], ...ticks]) {
    if (t !== undefined && !kept.includes(t) && fits(t)) kept.push(t);
  }
  return kept.sort((a, b) => a - b);
}

const titled = (axis) => axis.title + (axis.unit ? ', ' + axis.unit : '');
const valued = (axis, v) => (axis.format || number)(v) + (axis.unit ? ' ' + axis.unit : '');

function layOut(spec, width) {
  const points = spec.series.flatMap((s) => s.points.filter((p) => known(p.y)));
  const across = (spec.across || []).filter((r) => known(r.y)), along = (spec.along || []).filter((r) => known(r.x));
  const ys = points.map((p) => p.y).concat(across.map((r) => r.y));
  const xs = spec.x.measured || points.map((p) => p.x).concat(along.map((r) => r.x));
  const y =
      spec.y.domain ? {low: spec.y.domain[0], high: spec.y.domain[1], isLog: false} : extent(ys, spec.y.log || 0);
  let x = spec.x.domain || extent(xs, spec.x.log || 0);
  if (spec.x.measured)
    x = {
      low: Math.min(...xs),
      high: Math.max(...xs),
      isLog: Math.min(...xs) > 0 && Math.max(...xs) / Math.min(...xs) > 15
    };
  if (x.low === x.high) x = {low: x.low - 1, high: x.high + 1, isLog: false};
  const labels = !spec.compact && !spec.plain && width >= 560;
  const height = spec.compact ? 190 : Math.max(spec.height || 300, labels ? spec.series.length * 15 + 90 : 0);
  const box = {top: 30, bottom: height - 44, height, width, x, y, across, along, labels};
  box.yTicks = spec.y.ticks || (y.isLog ? roundLogTicks : roundTicks)(y.low, y.high, spec.compact ? 3 : 6);
  box.left = 12 + Math.max(...box.yTicks.map((t) => widthOf((spec.y.format || number)(t))));
  const longest = Math.max(0, ...spec.series.map((s) => widthOf(s.name)));
  box.room = labels ? Math.min(longest, width * 0.3) : 0;
  box.right = width - (labels ? box.room + 34 : 16);
  const inset = spec.x.measured ? 8 : 0;
  box.xOf = makeScale(x.low, x.high, box.left + inset, box.right - inset, x.isLog);
  box.yOf = makeScale(y.low, y.high, box.bottom, box.top, y.isLog);
  return box;
}

function drawAxes(spec, box) {
  const out = [], {left, right, top, bottom} = box, label = spec.x.format || number;
  for (const tick of box.yTicks) {
    const y = box.yOf(tick);
    out.push(svg('line', {class: 'grid', x1: left, x2: right, y1: y, y2: y}));
    out.push(
        svg('text', {class: 'tick', x: left - 6, y: y + 4, 'text-anchor': 'end'}, (spec.y.format || number)(tick)));
  }
  const all = spec.x.measured ?
      [...new Set(spec.x.measured)].sort((a, b) => a - b) :
      (box.x.isLog ? roundLogTicks : roundTicks)(box.x.low, box.x.high, Math.max(2, (right - left) / 75));
  for (const tick of all)
    out.push(svg('line', {class: 'base', x1: box.xOf(tick), x2: box.xOf(tick), y1: bottom, y2: bottom + 4}));
  for (const tick of withRoom(all, box.xOf, label, 8)) {
    const half = widthOf(label(tick)) / 2, x = Math.min(Math.max(box.xOf(tick), half), box.width - half);
    out.push(svg('text', {class: 'tick', x, y: bottom + 17, 'text-anchor': 'middle'}, label(tick)));
  }
  out.push(svg('line', {class: 'base', x1: left, x2: right, y1: bottom, y2: bottom}));
  const scale = (axis) => (axis.isLog ? ' (log)' : '');
  out.push(svg('text', {class: 'axis', x: 0, y: 14}, titled(spec.y) + scale(box.y)));
  out.push(
      svg('text', {class: 'axis', x: (left + right) / 2, y: bottom + 36, 'text-anchor': 'middle'},
          titled(spec.x) + scale(box.x)));
  return out;
}

/* One "?" above each value at which any point is doubtful; the points themselves are hollow. */
function drawDoubts(spec, box) {
  const at = new Set(spec.series.flatMap((s) => s.points.filter((p) => p.doubt && known(p.y)).map((p) => p.x)));
  return [...at].map(
      (x) => svg('text', {class: 'doubt', x: box.xOf(x), y: box.top - 2, 'text-anchor': 'middle'}, '?'));
}

/* SLOs: a line across, its name at the left, above the line where there is room. */
function drawLimits(spec, box) {
  const out = [], taken = [];
  for (const {y, text} of box.across) {
    const at = box.yOf(y);
    out.push(svg('line', {class: 'slo', x1: box.left, x2: box.right, y1: at, y2: at}));
    let place = at < box.top + 10 ? at + 14 : at - 5;
    while (taken.some((t) => Math.abs(t - place) < 14)) place += 14;
    taken.push(place);
    out.push(svg('text', {class: 'slo-text', x: box.left + 4, y: place}, text));
  }
  box.along.forEach(({x, text}, i) => {
    const at = box.xOf(x), isRight = at + 6 + widthOf(text) < box.right;
    out.push(svg('line', {class: 'slo', x1: at, x2: at, y1: box.top, y2: box.bottom}));
    out.push(
        svg('text', {
          class: 'slo-text',
          x: isRight ? at + 5 : at - 5,
          y: box.bottom - 8 - 14 * i,
          'text-anchor': isRight ? 'start' : 'end'
        },
            text));
  });
  for (const {points} of spec.others || []) {
    const d =
        points.map((p, i) => (i ? 'L' : 'M') + box.xOf(p.x) + ' ' + box.yOf(Math.min(p.y, box.y.high))).join('');
    out.push(svg('path', {class: 'other', d, fill: 'none'}));
  }
  return out;
}

function drawSeries(series, spec, box) {
  const out = [], i = series.index, ink = colour(i);
  let d = '', pen = 'M';
  for (const point of series.points) {
    if (!known(point.y)) {
      pen = 'M';
      continue;
    }
    d += pen + box.xOf(point.x).toFixed(1) + ' ' + box.yOf(point.y).toFixed(1);
    pen = 'L';
  }
  if (!series.dots)
    out.push(svg('path', {class: 'curve', d, stroke: ink, 'stroke-dasharray': series.dash || dash(i)}));
  const isAlone = (k) => !known((series.points[k - 1] || {}).y) && !known((series.points[k + 1] || {}).y);
  for (const [k, point] of series.points.entries()) {
    const isMarked = spec.quiet ? isAlone(k) : spec.plain ? point.mark : true;
    if (!known(point.y) || !isMarked) continue;
    const x = box.xOf(point.x), y = box.yOf(point.y);
    out.push(marker(
        spec.plain || spec.quiet ? 0 : i, x, y,
        {class: 'point', fill: point.doubt ? 'var(--paper)' : ink, stroke: ink, 'stroke-width': 1.5}));
  }
  return svg('g', {class: 'series', 'data-name': series.name, 'data-index': i}, out);
}

function lastOf(series) {
  const points = series.points.filter((p) => known(p.y));
  return points[points.length - 1];
}

/* Names beside the ends of their lines, in the lines' order. */
function drawLabels(spec, box) {
  const ends = spec.series.map((s) => ({series: s, end: lastOf(s)}))
                   .filter((l) => l.end)
                   .sort((a, b) => box.yOf(a.end.y) - box.yOf(b.end.y));
  const places = spread(ends.map((l) => box.yOf(l.end.y)), 14.5, box.top + 2, box.bottom - 2);
  return ends.map(({series, end}, i) => {
    const x = box.xOf(end.x), y = box.yOf(end.y), to = box.right + 22;
    const text =
        svg('text', {class: 'name', x: to + 4, y: places[i] + 4, style: 'fill:' + colour(series.index)},
            shorten(series.name, box.room));
    text.append(svg('title', {}, series.name));
    const leader = svg('path', {class: 'leader', d: `M${x + 6} ${y}L${box.right + 6} ${y}L${to} ${places[i]}`});
    const group = svg('g', {}, leader, text);
    group.addEventListener('pointerenter', () => fade(group.ownerSVGElement, series.name));
    group.addEventListener('pointerleave', () => fade(group.ownerSVGElement, null));
    return group;
  });
}

function fade(root, name) {
  for (const group of root.querySelectorAll('.series'))
    group.classList.toggle('pale', name !== null && group.dataset.name !== name);
}

function swatch(series, isPlain) {
  const i = series.index, ink = colour(i);
  return svg(
      'svg', {viewBox: '0 0 26 12', 'aria-hidden': 'true'}, series.dots ? null : svg('line', {
        x1: 1,
        x2: 25,
        y1: 6,
        y2: 6,
        stroke: ink,
        'stroke-width': 2,
        'stroke-dasharray': series.dash || dash(i)
      }),
      isPlain ? null : marker(i, 13, 6, {fill: ink, stroke: ink}));
}

function legendOf(series, isPlain) {
  return el(
      'ul', {class: 'legend'},
      series.map((s) => el('li', {}, swatch(s, isPlain), s.note ? s.name + ', ' + s.note : s.name)));
}

/* The y of a series at x: what was measured there, or between two points of a distribution. */
function readAt(series, x, isPlain) {
  const points = series.points.filter((p) => known(p.y));
  if (!isPlain) return points.find((p) => p.x === x);
  const next = points.findIndex((p) => p.x >= x);
  if (next < 0) return points.length ? {y: points[points.length - 1].y} : undefined;
  if (next === 0) return {y: x < points[0].x ? 0 : points[0].y};
  const a = points[next - 1], b = points[next];
  return {y: a.y + ((b.y - a.y) * (x - a.x)) / (b.x - a.x || 1)};
}

function addHover(root, spec, box, tip, hover) {
  const measured = spec.x.stops || spec.x.measured;
  const stops = measured ? [...new Set(measured)].sort((a, b) => a - b) : null;
  const hair = svg('line', {class: 'hair', y1: box.top, y2: box.bottom, visibility: 'hidden'});
  let current = -1;
  root.append(hair);
  function show(x) {
    const at = box.xOf(x);
    hair.setAttribute('x1', at);
    hair.setAttribute('x2', at);
    hair.setAttribute('visibility', 'visible');
    const read =
        spec.series.map((s) => ({s, p: readAt(s, x, spec.plain)})).filter((r) => r.p).sort((a, b) => b.p.y - a.p.y);
    const rows = read.map(
        ({s, p}) =>
            el('div', {}, el('i', {style: 'background:' + colour(s.index)}), el('span', {}, s.name),
               el('span', {}, valued(spec.y, p.y) + (p.doubt ? ' ?' : ''))));
    for (const {text, y} of spec.others || [])
      if (y) rows.push(el('div', {}, el('span', {}, text), el('span', {}, valued(spec.y, y(x)))));
    hover.at = at;
    showTip(tip, at, box.top, box.width, [el('b', {}, spec.x.title + ' ' + valued(spec.x, x)), ...rows]);
  }
  const hide = () => {
    hover.at = null;
    tip.hidden = true;
    hair.setAttribute('visibility', 'hidden');
  };
  function showAt(at) {
    if (at < box.left || at > box.right + 8 || (stops && !stops.length)) return hide();
    if (!stops) return show(box.xOf.back(Math.min(Math.max(at, box.left), box.right)));
    current =
        stops.reduce((best, v, i) => (Math.abs(box.xOf(v) - at) < Math.abs(box.xOf(stops[best]) - at) ? i : best), 0);
    show(stops[current]);
  }
  if (hover.at !== null) showAt(hover.at);
  root.addEventListener('pointermove', (event) => showAt(event.clientX - root.getBoundingClientRect().left));
  root.addEventListener('pointerleave', hide);
  root.addEventListener('blur', hide);
  root.addEventListener('keydown', (event) => {
    const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!move) return;
    event.preventDefault();
    const last = stops ? stops.length - 1 : 100;
    current = Math.min(last, Math.max(0, current + move));
    show(stops ? stops[current] : box.xOf.back(box.left + ((box.right - box.left) * current) / 100));
  });
}

/* The values of all series, a line for each x. */
function linesOf(spec) {
  const xs = [...new Set(spec.series.flatMap((s) => s.points.map((p) => p.x)))].sort((a, b) => a - b);
  const at = (s, x) => (s.points.find((p) => p.x === x) || {}).y;
  return [
    [titled(spec.x), ...spec.series.map((s) => s.name + ': ' + titled(spec.y))],
    ...xs.map((x) => [x, ...spec.series.map((s) => at(s, x))])
  ];
}

/* A chart of lines. What `spec` holds may change: figure.redraw() shows it. */
function plot(spec) {
  const {figure, plot: place, tip} = chartBox(spec.name, spec.about, () => linesOf(spec));
  const hover = {at: null};
  const legend = el('div');
  figure.append(legend);
  figure.redraw = keepDrawn(place, (width) => {
    spec.series.forEach((s, i) => {
      if (s.index === undefined) s.index = i;
    });
    const box = layOut(spec, width);
    const alt = spec.name + ': ' + spec.series.map((s) => s.name).join(', ') + '; ' + titled(spec.y) + ' over ' +
        titled(spec.x) + '. The table has the figures.';
    const root = svg('svg', {
      viewBox: `0 0 ${width} ${box.height}`,
      width,
      height: box.height,
      role: 'img',
      tabindex: 0,
      'aria-label': alt
    });
    root.append(
        ...drawAxes(spec, box), ...drawLimits(spec, box), ...drawDoubts(spec, box),
        ...spec.series.map((s) => drawSeries(s, spec, box)));
    if (box.labels) root.append(...drawLabels(spec, box));
    place.replaceChildren(root, tip);
    tip.hidden = true;
    addHover(root, spec, box, tip, hover);
    const order = spec.plain ?
        spec.series :
        spec.series.slice().sort((a, b) => ((lastOf(b) || {y: 0}).y - (lastOf(a) || {y: 0}).y));
    legend.replaceChildren(box.labels || spec.compact ? '' : legendOf(order, spec.plain || spec.quiet));
  });
  return figure;
}

/* ---- distributions ---- */

/* Up to three decades of what was measured, and the limits. */
function timeDomain(values, limits) {
  const data = extent(values, 30, 1e3), high = Math.max(0, ...limits);
  if (high <= data.high) return data;
  const least = data.isLog ? data.low : Math.min(...values.filter((v) => v > 0)),
        isLog = data.isLog || high / least > 30;
  return {low: isLog ? least : data.low, high: high * 1.08, isLog};
}

/* `curves`: [{name, values: ms at each share, dash}]; limits: [{x, text}]. A dot marks each p99. */
function distribution(name, shares, curves, limits, options) {
  const series = curves.filter((c) => c.values).map((c, i) => ({
                                                      name: c.name,
                                                      index: c.index === undefined ? i : c.index,
                                                      dash: c.dash,
                                                      note: 'p99 ' + number(c.values[shares.indexOf(0.99)]) + ' ms',
                                                      points: c.values.map(
                                                          (x, k) => ({x, y: shares[k], mark: shares[k] === 0.99})),
                                                    }));
  const all = series.flatMap((s) => s.points.map((p) => p.x));
  return plot({
    name,
    series,
    plain: true,
    along: limits,
    ...options,
    x: {
      title: 'time',
      unit: 'ms',
      log: 30,
      domain: (options || {}).domain || timeDomain(all, limits.map((l) => l.x))
    },
    y: {
      title: 'requests at most that long',
      unit: '%',
      domain: [0, 1],
      ticks: [0, 0.25, 0.5, 0.75, 0.99],
      format: (v) => number(Math.round(1e4 * v) / 100)
    },
  });
}
