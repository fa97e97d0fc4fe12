/* All models: a table to choose one from, and what each answers in time. */
const of = (key) => (row) => row[key];
const MANY = 24; /* lines of one chart */
let chosen = decodeURIComponent(location.hash.slice(1)) || null;

function choose(key) {
  chosen = key;
  history.replaceState(null, '', '#' + encodeURIComponent(key));
  showAll();
}

function rowOf(model) {
  const short = summary(model.samples, 10), long = summary(model.samples, 60);
  const last = model.samples.findLast((s) => known(s.p99_ms)) || {};
  return {
    model,
    name: titleOf(model),
    state: model.state.toLowerCase() || 'not loaded',
    policy: model.set ? model.set.policy : '',
    rate: short.dt ? short.accepted / short.dt : undefined,
    good: short.dt ? short.on_time / short.dt : undefined,
    bad: known(long.bad_share) ? 100 * long.bad_share : undefined,
    slo: model.set && model.set.slo_us !== null ? model.set.slo_us / 1000 : undefined,
    p50: last.p50_ms,
    p99: last.p99_ms,
    batch: short.batches ? short.rows / short.batches : undefined,
    queue: model.queue,
    oldest: known(model.oldest_us) ? model.oldest_us / 1000 : undefined,
  };
}

function chooser(row, text) {
  const isChosen = row.model.key === chosen;
  return el(
      'button', {
        type: 'button',
        class: 'name',
        'aria-pressed': String(isChosen),
        title: 'Show ' + text,
        onclick: () => choose(row.model.key)
      },
      text);
}

const modelTable = table(
    'All models',
    [
      {name: 'model', of: of('name'), word: true, node: chooser},
      {name: 'bad %', of: of('bad'), isBad: (row) => row.bad > 1},
      {name: 'rate r/s', of: of('rate')},
      {name: 'in time r/s', of: of('good')},
      {name: 'p99 ms', of: of('p99'), isBad: (row) => row.p99 > row.slo},
      {name: 'SLO ms', of: of('slo')},
      {name: 'p50 ms', of: of('p50')},
      {name: 'queue', of: of('queue'), format: whole},
      {name: 'oldest ms', of: of('oldest')},
      {name: 'mean batch', of: of('batch')},
      {name: 'state', of: of('state'), word: true},
      {name: 'policy', of: of('policy'), word: true},
    ],
    [], null, {column: 1, down: true});

/* ---- charts that are not on the screen are drawn when they come there ---- */

const stale = new Set(), seen = new Map();
const watcher = new IntersectionObserver((entries) => {
  for (const {target, isIntersecting} of entries) {
    seen.set(target, isIntersecting);
    if (isIntersecting && stale.delete(target)) target.redraw();
  }
}, {rootMargin: '300px'});

function redrawSeen(figure) {
  if (!seen.has(figure)) {
    seen.set(figure, true);
    watcher.observe(figure);
  }
  if (seen.get(figure))
    figure.redraw();
  else
    stale.add(figure);
}

/* ---- lines over time, with the last answer at 0 ---- */

/* Whole half minutes, as far as there are samples. */
function pastOf(samples) {
  const now = live.state.now_us / 1e6, first = samples.length ? samples[0].t : now;
  return Math.min(KEPT, Math.max(30, 30 * Math.ceil((now - first) / 30)));
}
const timeAxis = () => ({title: 'time', unit: 's before now', format: (v) => number(Math.max(0, -v)), stops: []});

function lineOf(name, samples, yOf, index) {
  const now = live.state.now_us / 1e6;
  return {name, index, points: samples.map((s) => ({x: s.t - now, y: yOf(s)}))};
}

/* Shows these lines in a chart that is there. */
function showLines(figure, spec, samples, series) {
  spec.series = series;
  spec.x.domain = {low: -pastOf(samples), high: 0, isLog: false};
  spec.x.stops = samples.map((s) => s.t - live.state.now_us / 1e6).filter((x) => x >= spec.x.domain.low);
  redrawSeen(figure);
}

const allSpec = {
  name: 'Answers in time, by model',
  quiet: true,
  height: 240,
  x: timeAxis(),
  y: {title: 'answers in time', unit: 'r/s'},
  series: []
};
const allFigure = plot(allSpec);
const allNote = el('p', {class: 'note'});

function showModels() {
  const models = live.models, rows = models.map(rowOf);
  if (!models.some((m) => m.key === chosen)) {
    const worst = rows.slice().sort((a, b) => (b.bad || 0) - (a.bad || 0) || (b.rate || 0) - (a.rate || 0))[0];
    chosen = worst ? worst.model.key : null;
  }
  modelTable.update(rows);
  const busy = rows.filter((r) => r.model.samples.length)
                   .sort((a, b) => (b.good || 0) - (a.good || 0) || (a.name < b.name ? -1 : 1))
                   .slice(0, MANY)
                   .sort((a, b) => models.indexOf(a.model) - models.indexOf(b.model));
  const longest = busy.reduce((best, r) => (r.model.samples.length > best.length ? r.model.samples : best), []);
  showLines(
      allFigure, allSpec, longest,
      busy.map((r) => lineOf(r.name, r.model.samples, (s) => s.on_time / s.dt, models.indexOf(r.model))));
  const left = models.length - busy.length;
  allNote.textContent = (left > 0 && busy.length === MANY ? 'The ' + MANY + ' with the most. ' : '') +
      'Rates are of the last 10 s, the bad share is of the last minute; p50 and p99 are of the last second with an answer.';
}
