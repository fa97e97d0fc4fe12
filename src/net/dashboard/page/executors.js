/* Which batch ran on which executor, and with how much slack: on a canvas, since there may be hundreds of lanes. */
const SPANS = [[100, '0.1 s'], [1000, '1 s'], [10000, '10 s']];
const OUTCOMES = ['done', 'preempted', 'diverged', 'aborted', 'failed', 'lost'],
      ABORTED = 3; /* from here on in vain */
const lanesView = {
  span: 1000,
  isChosen: false,
  bySlack: false,
  end: 0
};

const canvas = el('canvas', {role: 'img', tabindex: 0, 'aria-label': 'Batches on executors'});
const lanesTip = el('div', {class: 'tip', hidden: ''});
const lanesPlace = el('div', {class: 'plot'}, canvas, lanesTip);
const lanesLegend = el('ul', {class: 'legend'});
const lanesNote = el('p', {class: 'note'});
let lanesBox = null;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const laneHeight = (lanes) =>
    (lanes <= 16       ? 22 :
         lanes <= 64   ? 14 :
         lanes <= 128  ? 6 :
         lanes <= 512  ? 4 :
         lanes <= 1024 ? 2 :
                         1);

/* By slack: late, less than a tenth of the objective left, more, no deadline. */
function slackClass(bar) {
  if (bar.slack === null) return 'none';
  if (bar.slack < 0) return 'late';
  const model = live.models[bar.index], slo = model && model.set && model.set.slo_us;
  return slo && bar.slack * 1000 < slo / 10 ? 'tight' : 'good';
}
const SLACK_WORDS = {
  late: 'missed its deadline',
  tight: 'less than a tenth of the SLO left',
  good: 'in time',
  none: 'no deadline'
};

function inksOf() {
  const models = live.models.map((_, i) => colour(i)).concat(css('--soft'));
  const slack = {late: css('--late'), tight: css('--doubt'), good: css('--accent'), none: css('--soft')};
  return {
    of: (bar) => (lanesView.bySlack ? slack[slackClass(bar)] : models[bar.index]),
    slack,
    models,
    late: css('--late')
  };
}

function drawLaneNames(pen, box) {
  const soft = css('--soft'), line = css('--line');
  pen.textAlign = 'left';
  let lane = 0;
  for (const domain of live.state.domains) {
    domain.busy_us.forEach((_, e) => {
      const y = box.top + lane * box.lane, isTall = box.lane >= 12;
      pen.fillStyle = line;
      if (isTall || e === 0) pen.fillRect(0, y, box.width, 1);
      pen.fillStyle = soft;
      if (isTall || e % Math.max(16, Math.ceil(64 / box.lane)) === 0)
        pen.fillText(shorten(domain.policy + ' ' + e, box.left - 6), 0, y + (isTall ? box.lane / 2 + 4 : 11));
      lane++;
    });
  }
}

function drawLaneAxis(pen, box) {
  const label = (t) => number(Math.abs(t));
  const ticks = roundTicks(-lanesView.span, 0, Math.max(2, (box.width - box.left) / 90));
  const soft = css('--soft'), faint = css('--faint');
  pen.textAlign = 'center';
  for (const tick of withRoom(ticks, box.xOf, label, 10)) {
    const x = box.xOf(tick), half = widthOf(label(tick)) / 2;
    pen.fillStyle = faint;
    pen.fillRect(x, box.top, 1, box.bottom - box.top);
    pen.fillStyle = soft;
    pen.fillText(label(tick), Math.min(x, box.width - half), box.bottom + 15);
  }
  pen.fillText('time, ms before now', (box.left + box.width) / 2, box.bottom + 32);
}

function drawBatches(pen, box) {
  const inks = inksOf(), isTall = box.lane >= 12, last = new Map();
  for (const bar of live.bars) {
    const lane = live.lanes.get(bar.at);
    if (lane === undefined || bar.end < lanesView.end - lanesView.span || bar.start > lanesView.end) continue;
    const x = Math.max(box.left, box.xOf(bar.start - lanesView.end)), to = box.xOf(bar.end - lanesView.end);
    const wide = Math.max(0.75, to - x), late = bar.slack !== null && bar.slack < 0;
    if (to - (last.get(lane) || -9) < 0.5 && !late) continue; /* not to be seen beside the one before */
    last.set(lane, to);
    const gap = box.lane > 4 ? 1 : 0, y = box.top + lane * box.lane + gap, height = Math.max(1, box.lane - 1 - gap);
    pen.globalAlpha = bar.outcome >= ABORTED ? 0.35 : 1;
    pen.fillStyle = inks.of(bar);
    pen.fillRect(x, y, wide > 2 ? wide - 0.5 : wide, height);
    pen.globalAlpha = 1;
    if (late && !lanesView.bySlack) {
      pen.fillStyle = inks.late;
      pen.fillRect(x, y + height - 2, wide, 2);
    }
    if (isTall && wide > widthOf(String(bar.rows), 11) + 6) {
      pen.fillStyle = isDark() ? '#0b0f14' : '#fff';
      pen.textAlign = 'left';
      pen.fillText(String(bar.rows), x + 3, y + height / 2 + 4);
    }
  }
}

lanesPlace.redraw = keepDrawn(lanesPlace, (width) => {
  if (!live.state) return;
  const lanes = live.lanes.size, lane = laneHeight(lanes), top = 4, bottom = top + Math.max(1, lanes) * lane;
  const names = live.state.domains.map((d) => widthOf(d.policy + ' ' + Math.max(0, d.busy_us.length - 1)));
  const left = Math.min(width * 0.3, Math.max(40, ...names) + 8), height = bottom + 40, dots = devicePixelRatio || 1;
  const box =
      lanesBox = {width, height, top, bottom, left, lane, xOf: makeScale(-lanesView.span, 0, left, width - 2, false)};
  canvas.width = Math.round(width * dots);
  canvas.height = Math.round(height * dots);
  canvas.style.height = height + 'px';
  const pen = canvas.getContext('2d');
  pen.scale(dots, dots);
  pen.font = '12px ' + family;
  drawLaneAxis(pen, box);
  drawLaneNames(pen, box);
  drawBatches(pen, box);
});

function showLegend() {
  const inks = inksOf(), seen = live.bars.filter((bar) => bar.end > lanesView.end - lanesView.span);
  const key = (ink, name) =>
      el('li', {},
         svg('svg', {viewBox: '0 0 26 12', 'aria-hidden': 'true'},
             svg('rect', {class: 'model-key', x: 2, y: 1, width: 22, height: 10, fill: ink})),
         name);
  const models = [...new Set(seen.map((bar) => bar.index))].sort((a, b) => a - b);
  const nameAt = (i) => (live.models[i] ? titleOf(live.models[i]) : 'a model that has gone');
  const late = seen.some((bar) => bar.slack !== null && bar.slack < 0);
  lanesLegend.replaceChildren(
      ...(lanesView.bySlack ? ['good', 'tight', 'none'].map((k) => key(inks.slack[k], SLACK_WORDS[k])) :
                              models.map((i) => key(inks.models[i], nameAt(i)))),
      ...(late ? [el('li', {},
                     svg('svg', {viewBox: '0 0 26 12', 'aria-hidden': 'true'},
                         svg('line', {class: 'late', x1: 2, x2: 24, y1: 6, y2: 6})),
                     'missed deadline')] :
                 []));
  const shares = live.busy.filter(known), mean = shares.reduce((a, b) => a + b, 0) / (shares.length || 1);
  lanesNote.textContent = count(live.lanes.size, 'executor') +
      (shares.length ? ', ' + percent(mean) + ' busy in the last second. ' : '. ') +
      (live.skipped ? count(live.skipped, 'batch').replace('batchs', 'batches') +
               ' of the last second are not shown: the page takes the latest only. ' :
                      '') +
      'The number in a bar is its rows.';
}

/* At first so much of time that batches can be told apart. */
function chooseSpan() {
  const lengths = live.bars.map((bar) => bar.end - bar.start).sort((a, b) => a - b);
  const [span] = SPANS.find(([ms]) => ms > 40 * lengths[lengths.length >> 1]) || SPANS[SPANS.length - 1];
  lanesView.span = span;
  lanesView.isChosen = true;
}

function showExecutors() {
  if (!live.state) return;
  if (!lanesView.isChosen && live.bars.length) chooseSpan();
  lanesView.refresh();
  lanesView.end = live.state.now_us / 1000;
  canvas.setAttribute(
      'aria-label', 'Batches on ' + count(live.lanes.size, 'executor') + '. The CSV has the figures.');
  redrawSeen(lanesPlace);
  showLegend();
  if (lanesView.pointer) showBar(lanesView.pointer);
}

/* ---- what is under the pointer ---- */

function barAt(x, y) {
  const box = lanesBox, lane = Math.floor((y - box.top) / box.lane), at = lanesView.end + box.xOf.back(x);
  const near = (3 * lanesView.span) / (box.width - box.left);
  const there =
      live.bars.filter((bar) => live.lanes.get(bar.at) === lane && bar.start <= at + near && bar.end >= at - near);
  const away = (bar) => Math.max(0, bar.start - at, at - bar.end);
  return there.sort((a, b) => away(a) - away(b))[0];
}

function showBar(pointer) {
  const bar = lanesBox && barAt(pointer.x, pointer.y);
  lanesView.pointer = pointer;
  if (!bar) {
    lanesTip.hidden = true;
    return;
  }
  const lines =
      [['executor', bar.at.split(':')[1]], ['rows', bar.rows], ['ran', number(bar.end - bar.start) + ' ms']];
  if (bar.outcome > 0) lines.push(['ended', OUTCOMES[bar.outcome]]);
  lines.push(bar.slack === null ? ['deadline', 'none ends here'] : [
    bar.slack < 0 ? 'missed its deadline by' : 'least slack', number(Math.abs(bar.slack)) + ' ms'
  ]);
  showTip(
      lanesTip, pointer.x, pointer.y + 12, lanesBox.width,
      [el('b', {}, bar.name), ...lines.map(([k, v]) => el('div', {}, el('span', {}, k), el('span', {}, v)))]);
}

canvas.addEventListener('pointermove', (event) => {
  const corner = canvas.getBoundingClientRect();
  showBar({x: event.clientX - corner.left, y: event.clientY - corner.top});
});
canvas.addEventListener('pointerleave', () => {
  lanesView.pointer = null;
  lanesTip.hidden = true;
});

/* ---- the figure ---- */

function pressed(buttons, isOn) {
  buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(isOn(i))));
}

function makeExecutors() {
  const spans = SPANS.map(
      ([ms, name]) =>
          el('button', {
            type: 'button',
            'aria-label': 'Show the last ' + name,
            onclick: () => {
              lanesView.span = ms;
              lanesView.isChosen = true;
              showExecutors();
            }
          },
             name));
  const inks = ['Model', 'Slack'].map(
      (name, i) =>
          el('button', {
            type: 'button',
            'aria-label': 'Colours by ' + name.toLowerCase(),
            onclick: () => {
              lanesView.bySlack = i === 1;
              showExecutors();
            }
          },
             name));
  lanesView.refresh = () => {
    pressed(spans, (i) => SPANS[i][0] === lanesView.span);
    pressed(inks, (i) => (i === 1) === lanesView.bySlack);
  };
  const lines = () => [
      ['domain', 'executor', 'model', 'rows', 'start, ms before now', 'ran, ms', 'least slack, ms'],
      ...live.bars.map(
          (b) => [...b.at.split(':'), b.name, b.rows, lanesView.end - b.start, b.end - b.start, b.slack])];
  return el(
      'figure', {'aria-label': 'Batches'},
      el('div', {class: 'bar'}, el('h3', {}, 'Batches'), ...spans, ...inks, csvButton('Batches', lines)), lanesPlace,
      lanesLegend, lanesNote);
}
