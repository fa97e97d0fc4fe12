/* Which batch ran on which executor and when: a lane per executor, to be moved and zoomed. */
const LANE = 22, STAIRS = 170;

/* How the lanes lie: a stair of steps in each where models have several. */
function lanesOf(bars, models) {
  const lanes = 1 + Math.max(...bars.map((b) => b[0])), steps = Math.max(1, ...models.map((m) => m.steps.length));
  const lane = steps > 1 ? STAIRS : LANE,
        bar = steps > 1 ? Math.max(3, Math.min(LANE - 4, STAIRS / steps)) : LANE - 4;
  const yOf = (executor, step) =>
      22 + executor * lane + 2 + (steps > 1 ? ((lane - 4 - bar) * (steps - 1 - Math.max(0, step))) / (steps - 1) : 0);
  return {lanes, steps, lane, bar, yOf, height: 22 + lanes * lane + 4};
}

function aboutBar(bar, models) {
  const [executor, model, step, rows, start, end, slack, members] = bar;
  const lines = [
    ['executor', executor], ['rows', rows], ['from', fixed(3)(start) + ' ms'], ['to', fixed(3)(end) + ' ms'],
    ['ran', number(end - start) + ' ms']
  ];
  if (step < 0)
    lines.push(['aborted', 'yes']);
  else if (models[model].steps.length > 1)
    lines.push(['step', step + ' ' + models[model].steps[step]]);
  if (step >= 0)
    lines.push(
        slack === null ? ['deadline', 'none'] :
                         [slack < 0 ? 'missed its deadline by' : 'slack', number(Math.abs(slack)) + ' ms']);
  lines.push(
      [members.length > 1 ? 'requests' : 'request', members.join(' ') + (members.length === 16 ? ' ...' : '')]);
  return [
    el('b', {}, models[model].name), ...lines.map(([k, v]) => el('div', {}, el('span', {}, k), el('span', {}, v)))
  ];
}

/* A hatch for every twelve models, so that fills differ where colours come close. */
function hatches(id, used) {
  return svg('defs', {}, used.filter((m) => m >= LIGHT.length).map((m) => {
    const turn = 45 * Math.floor(m / LIGHT.length);
    return svg(
        'pattern',
        {id: id + m, width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: `rotate(${turn})`},
        svg('rect', {width: 6, height: 6, fill: colour(m)}),
        svg('rect', {width: 2, height: 6, fill: 'var(--paper)', opacity: 0.55}));
  }));
}

function timeline(name, data, models, view) {
  const bars = data.bars, layout = lanesOf(bars, models), id = 'hatch' + drawn.length + '-';
  const used = [...new Set(bars.map((b) => b[1]))].sort((a, b) => a - b);
  const inkOf = (m) => (m < LIGHT.length ? colour(m) : `url(#${id}${m})`);
  const {figure, plot: place, tip} = chartBox(
      name, '',
      () => [
          ['executor', 'model', 'step', 'rows', 'from, ms', 'to, ms', 'slack, ms'],
          ...bars.map(([e, m, step, rows, from, to, slack]) => [e, models[m].name, step, rows, from, to, slack])]);
  const left = Math.ceil(widthOf('executor ' + layout.lanes)) + (layout.steps > 1 ? 20 : 8);
  let width = 0, held = null; /* where a drag began */

  function drawBars(xOf) {
    const out = [], last = new Map();
    for (const bar of bars) {
      const [executor, model, step, rows, start, end, slack] = bar;
      if (end < view.from || start > view.to) continue;
      const x = Math.max(left, xOf(start)), wide = Math.min(width, xOf(end)) - x, y = layout.yOf(executor, step);
      const late = slack !== null && slack < 0, key = executor + ' ' + step;
      if (wide < 0.6 && !late && x - (last.get(key) || -9) < 0.6) continue; /* not to be seen beside the one before */
      last.set(key, x);
      const rect = svg('rect', {
        class: step < 0 ? 'task aborted' : 'task',
        x,
        y,
        width: Math.max(wide, 0.6),
        height: layout.bar,
        fill: inkOf(model)
      });
      rect.bar = bar;
      out.push(rect);
      if (late)
        out.push(
            svg('line',
                {class: 'late', x1: x, x2: x + Math.max(wide, 1.5), y1: y + layout.bar - 1, y2: y + layout.bar - 1}));
      if (wide > widthOf(String(rows), 11) + 5 && layout.bar >= 11)
        out.push(svg('text', {class: 'rows', x: x + 3, y: y + layout.bar / 2 + 4}, rows));
    }
    return out;
  }

  function draw(newWidth) {
    width = newWidth;
    const xOf = makeScale(view.from, view.to, left, width - 2, false), bottom = layout.height;
    const root =
        svg('svg', {
          class: 'lanes',
          viewBox: `0 0 ${width} ${bottom + 38}`,
          width,
          height: bottom + 38,
          role: 'img',
          tabindex: 0,
          'aria-label':
              name + ': batches on ' + count(layout.lanes, 'executor') + '. Arrow keys move, plus and minus zoom.'
        },
            hatches(id, used));
    const ticks = roundTicks(view.from, view.to, Math.max(2, (width - left) / 90)),
          label = (t) => String(+t.toPrecision(9));
    for (const tick of ticks)
      root.append(svg('line', {class: 'grid', x1: xOf(tick), x2: xOf(tick), y1: 20, y2: bottom}));
    for (const tick of withRoom(ticks, xOf, label, 8)) {
      const half = widthOf(label(tick)) / 2, x = Math.min(Math.max(xOf(tick), half), width - half);
      root.append(svg('text', {class: 'tick', x, y: bottom + 14, 'text-anchor': 'middle'}, label(tick)));
    }
    root.append(
        svg('text', {class: 'axis', x: (left + width) / 2, y: bottom + 33, 'text-anchor': 'middle'}, 'time, ms'));
    for (let e = 0; e < layout.lanes; e++) {
      root.append(svg('line', {class: 'base', x1: 0, x2: width, y1: 20 + e * layout.lane, y2: 20 + e * layout.lane}));
      root.append(svg('text', {class: 'tick', x: 0, y: layout.yOf(e, layout.steps - 1) + 13}, 'executor ' + e));
      for (let s = 0; layout.steps > 1 && layout.bar >= 11 && s < layout.steps - 1; s++) {
        root.append(svg(
            'text', {class: 'tick', x: left - 6, y: layout.yOf(e, s) + layout.bar / 2 + 4, 'text-anchor': 'end'}, s));
      }
    }
    for (const [executor, step, from, to] of data.waits) {
      if (to < view.from || from > view.to) continue;
      const y = layout.yOf(executor, step) + layout.bar / 2;
      root.append(
          svg('line', {class: 'wait', x1: Math.max(left, xOf(from)), x2: Math.min(width, xOf(to)), y1: y, y2: y}));
    }
    root.append(...drawBars(xOf));
    place.replaceChildren(root, tip);
    tip.hidden = true;
    listen(root, xOf);
  }

  function listen(root, xOf) {
    root.addEventListener('pointerdown', (event) => {
      held = {x: event.clientX, from: view.from, to: view.to};
    });
    root.addEventListener('pointermove', (event) => {
      if (held && event.buttons) {
        const by = ((held.x - event.clientX) * (held.to - held.from)) / (width - left);
        if (Math.abs(event.clientX - held.x) > 2) view.set(held.from + by, held.to + by);
        return;
      }
      const bar = event.target.bar;
      if (!bar) {
        tip.hidden = true;
        return;
      }
      const corner = root.getBoundingClientRect();
      showTip(tip, event.clientX - corner.left, event.clientY - corner.top + 12, width, aboutBar(bar, models));
    });
    root.addEventListener('pointerleave', () => {
      tip.hidden = true;
    });
    root.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return; /* the page scrolls */
      event.preventDefault();
      view.zoom(
          event.deltaY + event.deltaX > 0 ? 1.3 : 1 / 1.3,
          xOf.back(event.clientX - root.getBoundingClientRect().left));
    }, {passive: false});
    root.addEventListener('keydown', (event) => {
      const span = view.to - view.from, by = {ArrowLeft: -0.2, ArrowRight: 0.2}[event.key],
            zoom = {'+': 1 / 1.5, '=': 1 / 1.5, '-': 1.5}[event.key];
      if (!by && !zoom) return;
      event.preventDefault();
      if (by)
        view.set(view.from + by * span, view.to + by * span);
      else
        view.zoom(zoom);
      place.firstChild.focus();
    });
  }

  view.listeners.push(() => {
    if (width) draw(width);
  });
  const tool = (text, label, act) => el('button', {type: 'button', 'aria-label': label, onclick: act}, text);
  figure.querySelector('.bar').append(
      tool('\u2212', 'Zoom out', () => view.zoom(2)), tool('+', 'Zoom in', () => view.zoom(0.5)),
      tool('\u2190', 'Earlier', () => view.move(-0.5)), tool('\u2192', 'Later', () => view.move(0.5)),
      tool('All', 'Show all', () => view.set(view.first, view.last)));
  keepDrawn(place, draw);
  const legend = el('ul', {class: 'legend'});
  keepDrawn(
      legend,
      () => legend.replaceChildren(
          ...used.map(
              (m) =>
                  el('li', {},
                     svg('svg', {viewBox: '0 0 26 12', 'aria-hidden': 'true'}, hatches(id + 'l', [m]), svg('rect', {
                           class: 'model-key',
                           'data-model': m,
                           x: 2,
                           y: 1,
                           width: 22,
                           height: 10,
                           fill: m < LIGHT.length ? colour(m) : `url(#${id}l${m})`
                         })),
                     models[m].name)),
          ...(bars.some((b) => b[6] !== null && b[6] < 0) ?
                  [el('li', {},
                      svg('svg', {viewBox: '0 0 26 12', 'aria-hidden': 'true'},
                          svg('line', {class: 'late', x1: 2, x2: 24, y1: 6, y2: 6})),
                      'missed deadline')] :
                  []),
          ...(data.waits.length ? [el('li', {},
                                      svg('svg', {viewBox: '0 0 26 12', 'aria-hidden': 'true'},
                                          svg('line', {class: 'wait', x1: 2, x2: 24, y1: 6, y2: 6})),
                                      'a batch waits for newcomers to catch up')] :
                                  [])));
  figure.append(legend);
  return figure;
}

/* What timelines that belong together show: the same part of time. */
function makeView(allBars) {
  const first = Math.min(...allBars.map((bars) => bars[0][4])),
        last = Math.max(...allBars.flatMap((bars) => bars.map((b) => b[5])));
  const per = Math.max(...allBars.map((bars) => {
    const lanes = new Set(bars.map((b) => b[0])).size,
          some = bars[Math.min(bars.length - 1, Math.round(Math.min(40, innerWidth / 28)) * lanes)];
    return some[5] - first;
  }));
  const view = {first, last, from: first, to: Math.min(last, first + per), listeners: []};
  view.set = (from, to) => {
    const span = Math.min(Math.max(to - from, (last - first) / 1e5), last - first);
    view.from = Math.min(Math.max(from, first), last - span);
    view.to = view.from + span;
    view.listeners.forEach((changed) => changed());
  };
  view.zoom = (by, around) => {
    const at = around === undefined ? (view.from + view.to) / 2 : around;
    view.set(at - (at - view.from) * by, at + (view.to - at) * by);
  };
  view.move = (by) => view.set(view.from + by * (view.to - view.from), view.to + by * (view.to - view.from));
  return view;
}
