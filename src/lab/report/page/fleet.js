/* The page of a fleet plan: devices of each type by the hour, what lies where, what other fleets would cost. */

function drawFleet() {
  const plan = BODY, used = plan.devices.filter((d) => d.most > 0);
  subtitle(count(plan.models, 'model') + ', ' + count(plan.hours, 'hour'));
  page.append(verdict(plan.verdict.trim().split('\n')));
  const series = used.map(
      (d, index) => ({name: d.name, index, points: d.devices_by_hour.flatMap((y, h) => [{x: h, y}, {x: h + 1, y}])}));
  page.append(section(
      'By the hour',
      charts(
          [plot({name: 'Devices', x: {title: 'time', unit: 'h'}, y: {title: 'fleet', unit: 'devices'}, series})])));
  page.append(section(
      'What lies where',
      table(
          'Sub-clusters',
          [
            {name: 'sub-cluster', of: of('sub_cluster'), word: true},
            {name: 'device', of: of('device'), word: true},
            {name: 'devices at the peak', of: of('devices')},
            {name: 'peak hour', of: of('peak_hour')},
            {
              name: 'bad %, simulated',
              of: (g) => 100 * g.bad_rate,
              format: fixed(3),
              isBad: (g) => g.bad_rate > 0.01
            },
            {name: 'models', of: (g) => g.models.join(', '), word: true},
          ],
          plan.sub_clusters)));
  const rows = plan.what_if.filter((w) => known(w.cost_per_million));
  page.append(section(
      'What if', charts([bars({
        name: 'Cost per million timely requests',
        title: 'cost',
        unit: 'per million',
        rows: [{change: 'the plan', cost_per_million: plan.cost_per_million}].concat(rows).map(
            (w) => ({name: w.change, value: w.cost_per_million, marks: [plan.cost_per_million], about: w.change})),
        marks: ['the plan'],
      })]),
      plan.what_if.filter((w) => w.reason).map((w) => el('p', {class: 'note'}, w.change + ': ' + w.reason + '.'))));
}
