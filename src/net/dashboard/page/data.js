/* What the server said: asked for once a second, and kept for some minutes. Bounded, whatever the load. */
const PERIOD_MS = 1000, LIMIT_MS = 5000, KEPT = 300, KEPT_BARS = 40000, BARS_MS = 10000;
const OTHERS = ['late', 'failed', 'rejected'];
const COUNTED = ['accepted', 'on_time', 'cancelled', 'rows', 'batches', ...OTHERS];

const live = {
  state: null,        /* the last answer */
  setup: null,        /* the part of an answer that comes only when models change */
  models: [],         /* of the last answer, each with `key`, `set` (its setup) and `samples` */
  samples: new Map(), /* key -> [{t, dt, ...}], the oldest first */
  bars: [],           /* batches, the oldest first */
  lanes: new Map(),   /* "domain:executor" -> its place from above */
  skipped: 0,         /* batches that an answer left out */
  busy: null,         /* per lane, the share of the last second */
  problem: '',
};
const keyOf = (model) => model.name + '/' + (model.version || '');
const titleOf = (model) =>
    live.models.filter((m) => m.name === model.name).length > 1 ? model.name + ' ' + model.version : model.name;
const badOf = (s) => OTHERS.reduce((sum, key) => sum + s[key], 0) + s.dropped;

/* What a model did between two answers; null: there is no answer before, or the server began again. */
function sampleOf(model, before, dt) {
  if (!before || model.accepted === undefined || before.accepted === undefined) return null;
  const sample = {dt, reasons: {}, sizes: new Map()};
  for (const key of COUNTED) sample[key] = model[key] - before[key];
  if (COUNTED.some((key) => sample[key] < 0)) return null;
  sample.dropped = 0;
  for (const [reason, count] of Object.entries(model.dropped)) {
    const now = count - (before.dropped[reason] || 0);
    sample.dropped += now;
    sample.reasons['dropped: ' + reason.replace('_', ' ')] = now;
  }
  for (const key of OTHERS) sample.reasons[key] = sample[key];
  const earlier = new Map(before.sizes.map(([rows, count]) => [rows, count]));
  for (const [rows, count] of model.sizes) {
    const now = count - (earlier.get(rows) || 0);
    if (now > 0) sample.sizes.set(rows, now);
  }
  sample.queue = model.queue;
  sample.oldest_ms = model.oldest_us / 1000;
  return sample;
}

/* Adds what the server knows of the model's latest requests. Versions of a model share it. */
function addRecent(sample, model, state) {
  const recent = state.recent.find(([name]) => state.names[name] === model.name);
  if (!recent || !recent[1]) return;
  sample.p50_ms = recent[3] / 1000;
  sample.p99_ms = recent[4] / 1000;
  sample.max_ms = recent[5] / 1000;
  if (recent[6] !== null) sample.slack_ms = recent[6] / 1000;
}

function takeModels(state, before, dt) {
  const earlier = new Map((before ? before.models : []).map((m) => [keyOf(m), m]));
  const setups = new Map(live.setup.models.map((m) => [keyOf(m), m]));
  for (const model of state.models) {
    model.key = keyOf(model);
    model.set = setups.get(model.key) || null;
    const sample = sampleOf(model, earlier.get(model.key), dt);
    if (!live.samples.has(model.key)) live.samples.set(model.key, []);
    model.samples = live.samples.get(model.key);
    if (!sample) continue;
    addRecent(sample, model, state);
    sample.t = state.now_us / 1e6;
    model.samples.push(sample);
    if (model.samples.length > KEPT) model.samples.shift();
  }
  for (const key of live.samples.keys()) {
    if (!state.models.some((m) => m.key === key)) live.samples.delete(key);
  }
  live.models = state.models;
}

function takeExecutors(state, before, dt) {
  live.lanes.clear();
  live.busy = [];
  const earlier = new Map((before ? before.domains : []).map((d) => [d.domain, d.busy_us]));
  for (const domain of state.domains) {
    const old = earlier.get(domain.domain);
    domain.busy_us.forEach((us, e) => {
      live.busy.push(old && dt ? Math.min(1, Math.max(0, (us - old[e]) / (1e6 * dt))) : undefined);
      live.lanes.set(domain.domain + ':' + e, live.lanes.size);
    });
  }
  const now = state.now_us / 1000, indexOf = new Map(live.models.map((m, i) => [m.name, i]).reverse());
  for (const [domain, executor, name, rows, start, length, slack, outcome] of state.batches) {
    live.bars.push({
      at: domain + ':' + executor,
      name: state.names[name],
      index: indexOf.has(state.names[name]) ? indexOf.get(state.names[name]) : live.models.length,
      rows,
      start: now + start / 1000,
      end: now + (start + length) / 1000,
      slack: slack === null ? null : slack / 1000,
      outcome
    });
  }
  live.skipped = state.left_out + state.lost;
  const first = live.bars.findIndex((bar) => bar.end > now - BARS_MS);
  const surplus = Math.max(live.bars.length - KEPT_BARS, first < 0 ? live.bars.length : first);
  if (surplus > 0) live.bars.splice(0, surplus);
}

function take(state) {
  const before = live.state && live.state.now_us < state.now_us ? live.state : null;
  const dt = before ? (state.now_us - before.now_us) / 1e6 : 0;
  if (state.setup) live.setup = state.setup;
  takeModels(state, before, dt);
  takeExecutors(state, before, dt);
  live.state = state;
}

async function ask() {
  const known = live.state && live.setup ? `generation=${live.state.generation}&after=${live.state.cursor}` : '';
  const answer = await fetch('state?' + known, {signal: AbortSignal.timeout(LIMIT_MS), cache: 'no-store'});
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer.json();
}

/* The samples of the last `seconds`, added up. */
function summary(samples, seconds) {
  const from = live.state ? live.state.now_us / 1e6 - seconds : 0, out = {dt: 0, dropped: 0, reasons: {}};
  for (const key of COUNTED) out[key] = 0;
  for (const s of samples) {
    if (s.t <= from) continue;
    out.dt += s.dt;
    out.dropped += s.dropped;
    for (const key of COUNTED) out[key] += s[key];
    for (const [reason, count] of Object.entries(s.reasons)) out.reasons[reason] = (out.reasons[reason] || 0) + count;
  }
  out.bad = badOf(out);
  out.ended = out.on_time + out.bad;
  out.bad_share = out.ended ? out.bad / out.ended : undefined;
  return out;
}
