/* The page of a plan: the highest rate of each policy, what a real server did, and what to write. */

const CHECKED = [
  ['goodput, r/s', 'predicted_per_s', 'goodput_per_s'],
  ['bad, %', 'predicted_bad_rate', 'bad_rate'],
  ['p99, ms', 'predicted_p99_ms', 'p99_ms'],
];

/* The figures of the check at one rate and, where it was searched, the highest rate. */
function checkTable(plan) {
  const check = plan.check, scale = (key) => (key.endsWith('bad_rate') ? 100 : 1);
  const at = ' at ' + number(check.offered_per_s) + ' r/s';
  const rows = CHECKED.map(([name, predicted, real]) => ({
                             name: name + at,
                             predicted: scale(predicted) * check[predicted],
                             real: scale(real) * check[real],
                           }));
  if (!(plan.load.rate_per_s > 0))
    rows.unshift({name: 'highest rate, r/s', predicted: plan.goodput_per_s, real: check.highest_per_s});
  return table(
      'The best policy on a real server',
      [
        {name: 'figure', of: of('name'), word: true},
        {name: 'predicted', of: of('predicted')},
        {name: 'real server', of: of('real')},
      ],
      rows);
}

function costNote(plan) {
  const cost = plan.server_cost;
  if (!cost) return el('p', {class: 'note'}, 'Server costs were not measured; real servers hold less.');
  return el(
      'p', {class: 'note'},
      'The server costs ' + number(cost.request_us) + ' \u00b5s per request and ' + number(cost.batch_us) +
          ' \u00b5s per batch, the load generator ' + number(cost.client_us) + ' \u00b5s per request. Batches take ' +
          number(cost.batch_over_profile_p50) + ' (median) to ' + number(cost.batch_over_profile_p99) +
          ' (p99) times their profile. Other programs left ' + percent(cost.processor_share) + ' of ' +
          count(cost.cores, 'processor') + '; the load average was ' + number(plan.load_average) + '.');
}

function drawPlan() {
  const plan = BODY, load = plan.load.rate_per_s, ran = plan.candidates.filter((c) => c.ran);
  const order = ran.slice().sort((a, b) => b.highest_per_s - a.highest_per_s);
  const real = plan.check && load <= 0 ? plan.check.highest_per_s : undefined;
  subtitle(
      plan.models.map((m) => m.name).join(', ') + ', ' + count(plan.devices_given, 'device') +
      (load > 0 ? ', ' + number(load) + ' requests a second (' + plan.load.kind + ')' : ''));
  page.append(verdict([plan.verdict]));
  const marks = load > 0 ? ['the load and 30 %'] : known(real) ? ['real server'] : [];
  const rows = order.map((c) => ({
                           name: c.name,
                           value: c.highest_per_s,
                           marks: load > 0                              ? [1.3 * load] :
                               known(real) && c.name === plan.candidate ? [real] :
                                                                          [],
                           about: c.name + ': p99 ' + number(c.p99_ms) + ' ms, mean batch ' + number(c.mean_batch),
                         }));
  const name = 'Highest rate with at most 1 % bad requests';
  page.append(section('Policies', charts([bars({name, title: 'rate', unit: 'r/s', rows, marks})])));
  page.append(section(
      'Figures',
      table(
          load > 0 ? 'At the load and 30 %' : 'Each at its highest rate',
          [
            {name: 'policy', of: of('name'), word: true},
            {name: 'highest r/s', of: of('highest_per_s'), format: fixed(1)},
            {name: 'goodput r/s', of: of('goodput_per_s'), format: fixed(1)},
            {name: 'bad %', of: (c) => 100 * c.bad_rate, format: fixed(2)},
            {name: 'mean ms', of: of('mean_ms'), format: fixed(3)},
            {name: 'p99 ms', of: of('p99_ms'), format: fixed(3)},
            {name: 'mean batch', of: of('mean_batch'), format: fixed(1)},
            {name: 'busy %', of: (c) => 100 * c.utilisation, format: fixed(1)},
          ],
          ran),
      plan.check ? checkTable(plan) : '', costNote(plan)));
  const settings = (m) =>
      [el('h3', {}, m.name + ', objective ' + number(m.slo_ms) + ' ms' + (m.slo_is_default ? ' (by default)' : '')),
       el('pre', {class: 'scroll'}, m.tutti_pbtxt)];
  page.append(section('tutti.pbtxt to write', plan.models.flatMap(settings)));
}
