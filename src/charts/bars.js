/* Horizontal bars with an interval and marks: goodput by setting. */
const MAX_BARS = 40;

function drawBarAxis(spec, xOf, left, right, bottom) {
  const out = [], ticks = roundTicks(0, spec.high, Math.max(2, (right - left) / 90));
  for (const tick of ticks) out.push(svg('line', {class: 'grid', x1: xOf(tick), x2: xOf(tick), y1: 18, y2: bottom}));
  for (const tick of withRoom(ticks, xOf, number, 8)) {
    const half = widthOf(number(tick)) / 2;
    out.push(
        svg('text', {class: 'tick', x: Math.max(xOf(tick), half), y: bottom + 16, 'text-anchor': 'middle'},
            number(tick)));
  }
  out.push(svg('text', {class: 'axis', x: left, y: 12}, spec.title + ', ' + spec.unit));
  return out;
}

function drawBar(row, spec, xOf, y, place) {
  const height = 14, out = [];
  const label = svg('text', {class: 'name', x: 0, y: place.above ? y - 5 : y + 11}, shorten(row.name, place.room));
  label.append(svg('title', {}, row.name));
  out.push(label);
  out.push(
      svg('rect',
          {class: 'bar-value', x: xOf(0), y, width: Math.max(0, xOf(row.value) - xOf(0)), height, fill: colour(0)}));
  if (known(row.low) && known(row.high) && row.high > row.low) {
    const middle = y + height / 2;
    out.push(svg('path', {
      class: 'whisker',
      fill: 'none',
      d: `M${xOf(row.low)} ${middle - 4}V${middle + 4}M${xOf(row.low)} ${middle}H${xOf(row.high)}M${xOf(row.high)} ${
          middle - 4}V${middle + 4}`
    }));
  }
  (row.marks || []).forEach((value, i) => {
    if (known(value))
      out.push(svg('line', {
        x1: xOf(value),
        x2: xOf(value),
        y1: y - 3,
        y2: y + height + 3,
        stroke: colour(i + 1),
        'stroke-width': 3,
        'stroke-dasharray': i ? '3 2' : ''
      }));
  });
  out.push(svg('text', {class: 'value', x: place.right + 8, y: y + 11}, number(row.value)));
  return svg('g', {class: 'row'}, out, svg('title', {}, row.about || row.name));
}

/* spec: {name, title, unit, rows: [{name, value, low, high, marks: [value], about}], marks: [name]} */
function bars(spec) {
  const {figure, plot: place} = chartBox(
      spec.name, spec.about,
      () => [
          [spec.title + ', ' + spec.unit, 'name', 'low', 'high', ...spec.marks],
          ...spec.rows.map((r) => [r.value, r.name, r.low, r.high, ...(r.marks || [])])]);
  let shown = Math.min(spec.rows.length, MAX_BARS);
  const more = el('button', {type: 'button'}, 'Show all ' + spec.rows.length);
  const draw = (width) => {
    const rows = spec.rows.slice(0, spec.live ? MAX_BARS : shown),
          longest = Math.max(0, ...rows.map((r) => widthOf(r.name))), above = width < 560 && longest > width * 0.3,
          step = above ? 36 : 22;
    spec.high = 1.02 * Math.max(1e-9, ...rows.flatMap((r) => [r.value, r.high, ...(r.marks || [])].filter(known)));
    const valueRoom = 14 + Math.max(0, ...rows.map((r) => widthOf(number(r.value))));
    const room = above ? width - 4 : Math.min(width * 0.4, longest + 2);
    const left = above ? 0 : room + 10, right = width - valueRoom, top = above ? 38 : 24,
          bottom = top + rows.length * step;
    const xOf = makeScale(0, spec.high, left, right, false);
    const root = svg('svg', {
      viewBox: `0 0 ${width} ${bottom + 24}`,
      width,
      height: bottom + 24,
      role: 'img',
      'aria-label': spec.name + '. The table has the figures.'
    });
    root.append(...drawBarAxis(spec, xOf, left, right, bottom));
    rows.forEach((row, i) => root.append(drawBar(row, spec, xOf, top + i * step, {room, right, above})));
    place.replaceChildren(root);
  };
  figure.redraw = keepDrawn(place, draw);
  if (shown < spec.rows.length) {
    more.addEventListener('click', () => {
      shown = spec.rows.length;
      more.remove();
      draw(place.clientWidth);
    });
    figure.append(more);
  }
  const mark = (i) => svg(
      'line',
      {x1: 13, x2: 13, y1: 0, y2: 12, stroke: colour(i), 'stroke-width': 3, 'stroke-dasharray': i > 1 ? '3 2' : ''});
  const bar = () => svg('rect', {x: 2, y: 2, width: 22, height: 8, fill: colour(0)});
  const key = (name, i) =>
      el('li', {}, svg('svg', {viewBox: '0 0 26 12', 'aria-hidden': 'true'}, i ? mark(i) : bar()), name);
  const hasSeeds = spec.rows.some((r) => known(r.low) && r.high > r.low), legend = el('ul', {class: 'legend'});
  keepDrawn(
      legend,
      () => legend.replaceChildren(
          ...[spec.title, ...spec.marks].map(key),
          hasSeeds ? el('li', {}, '\u251c\u2524 least to most of the seeds') : ''));
  if (!spec.live) figure.append(legend);
  return figure;
}
