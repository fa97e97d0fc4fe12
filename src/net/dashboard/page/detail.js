/* One model: its figures over time, its batch sizes, and what its policy believes of it. */
const spec = (name, title, unit, more) =>
    ({name, quiet: true, plain: true, height: 220, x: timeAxis(), y: {title, unit}, series: [], ...more});
const detail = {
  rate: spec('Rate', 'requests', 'r/s'),
  latency: spec('Latency', 'latency', 'ms', {y: {title: 'latency', unit: 'ms', log: 30}}),
  bad: spec('Bad requests, by reason', 'requests', 'r/s'),
  queue: spec('Queue', 'requests that wait', 'count'),
  batch: spec('Mean batch', 'mean batch', 'rows'),
  slack: spec('Least slack at the end', 'slack', 'ms'),
};
const detailFigures = Object.fromEntries(Object.entries(detail).map(([key, s]) => [key, plot(s)]));
const sizesSpec = {
  name: 'Batch sizes, last minute',
  title: 'batches',
  unit: 'count',
  rows: [],
  marks: [],
  live: true
};
const sizesFigure = bars(sizesSpec);
const beliefSpec = {
  name: 'What the policy believes',
  height: 220,
  x: {title: 'batch', unit: 'rows', measured: [1], format: (v) => String(v)},
  y: {title: 'a batch takes', unit: 'ms', log: 50},
  series: []
};
const beliefFigure = plot(beliefSpec), beliefNote = el('p', {class: 'note'});
const detailHead = el('h2'), detailFacts = el('dl', {class: 'facts'});

function factsOf(model) {
  const set = model.set,
        facts = [['state', (model.state || 'not loaded') + (model.reason ? ': ' + model.reason : '')]];
  if (set) {
    const options = Object.entries(set.options).map(([k, v]) => k + ' ' + v);
    facts.push(
        ['policy', set.policy + (options.length ? ' (' + options.join(', ') + ')' : '')],
        ['objective', set.slo_us === null ? 'none' : number(set.slo_us / 1000) + ' ms'],
        ['runs on', count(set.executors, 'executor') + ' of domain ' + set.domain + ', ' + set.platform],
        ['largest batch', count(set.max_batch, 'row')]);
    if (set.profile.step_count > 1) facts.push(['steps', whole(set.profile.step_count)]);
  }
  return facts;
}

/* Batches of the last minute by size: each size where there are few, else from one power of two to the next. */
function sizeRows(samples) {
  const from = live.state.now_us / 1e6 - 60, all = new Map();
  for (const s of samples) {
    if (s.t <= from) continue;
    for (const [rows, n] of s.sizes) all.set(rows, (all.get(rows) || 0) + n);
  }
  const sizes = [...all.keys()].sort((a, b) => a - b);
  if (sizes.length <= 10) return sizes.map((rows) => ({name: count(rows, 'row'), value: all.get(rows)}));
  const groups = new Map();
  for (const rows of sizes) {
    const last = 2 ** Math.ceil(Math.log2(rows));
    groups.set(last, (groups.get(last) || 0) + all.get(rows));
  }
  return [...groups].map(
      ([last, value]) => ({name: last <= 2 ? count(last, 'row') : last / 2 + 1 + ' to ' + last + ' rows', value}));
}

/* The profile, the values that the server may have learnt since, and what batches took. */
function showBelief(model) {
  const profile = model.set && model.set.profile;
  beliefFigure.hidden = !profile;
  if (!profile) return;
  const lengths = profile.by_length,
        line = (name, us) => ({name, points: profile.rows.map((x, i) => ({x, y: us[i] / 1000}))});
  const some =
      lengths.length > 4 ? [0, 1, 2, 3].map((i) => lengths[Math.round((i * (lengths.length - 1)) / 3)]) : lengths;
  const series = some.map((l) => line(l.length ? 'profile, length ' + l.length : 'profile', l.us));
  if (model.believed_us) series.push(line('believed now', model.believed_us));
  const ran = (model.sizes || []).filter(([, n]) => n > 0);
  series.push(
      {name: 'measured while serving (mean)', dots: true, points: ran.map(([x, n, us]) => ({x, y: us / n / 1000}))});
  beliefSpec.series = series;
  beliefSpec.x.measured = [...new Set([...profile.rows, ...ran.map(([x]) => x)])].sort((a, b) => a - b);
  redrawSeen(beliefFigure);
  const off =
      ran.map(([x, n, us]) => ({x, n, by: us / n / (some[some.length - 1].us[profile.rows.indexOf(x)] || NaN)}))
          .filter((o) => known(o.by))
          .sort((a, b) => b.n - a.n)[0];
  beliefNote.textContent = off && some.length === 1 && profile.step_count === 1 ? 'Batches of ' +
          count(off.x, 'row') + ', the most frequent, took ' + number(off.by) + ' times what the profile says.' :
                                                                                  '';
}

function showDetail() {
  const model = live.models.find((m) => m.key === chosen);
  if (!model) return;
  const samples = model.samples, slo = model.set && model.set.slo_us !== null ? model.set.slo_us / 1000 : null;
  const at = (name, of, index) => lineOf(name, samples, of, index),
        show = (key, series) => showLines(detailFigures[key], detail[key], samples, series);
  detailHead.textContent = titleOf(model);
  detailFacts.replaceChildren(...factsOf(model).flatMap(([k, v]) => [el('dt', {}, k), el('dd', {}, v)]));
  detail.latency.across = slo === null ? [] : [{y: slo, text: 'SLO ' + number(slo) + ' ms'}];
  show(
      'rate',
      [at('in time', (s) => s.on_time / s.dt, 2), {...at('arrived', (s) => s.accepted / s.dt, 0), dash: '2 3'}]);
  show('latency', [at('p50', (s) => s.p50_ms, 0), at('p99', (s) => s.p99_ms, 3), at('longest', (s) => s.max_ms, 1)]);
  const reasons = [...new Set(samples.flatMap((s) => Object.keys(s.reasons).filter((r) => s.reasons[r] > 0)))].sort();
  show(
      'bad', reasons.length ? reasons.map((r, i) => at(r, (s) => s.reasons[r] / s.dt, i)) : [at('none', () => 0, 0)]);
  show('queue', [at('waiting', (s) => s.queue, 0)]);
  show('batch', [at('mean', (s) => (s.batches ? s.rows / s.batches : undefined), 0)]);
  show('slack', [at('least of the requests of a second', (s) => s.slack_ms, 0)]);
  detail.slack.across = [{y: 0, text: 'deadline'}];
  detailFigures.slack.hidden = slo === null && !samples.some((s) => known(s.slack_ms));
  sizesSpec.rows = sizeRows(samples);
  redrawSeen(sizesFigure);
  showBelief(model);
}

function makeDetail() {
  beliefFigure.append(beliefNote);
  return el(
      'section', {}, detailHead, detailFacts,
      el('div', {class: 'charts two'}, detailFigures.rate, detailFigures.latency, detailFigures.bad,
         detailFigures.queue, detailFigures.batch, sizesFigure, detailFigures.slack, beliefFigure));
}
