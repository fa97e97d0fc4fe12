/* The page of a placement: what each sub-cluster has, after and before, and what moves. */

function drawPlace() {
  const plan = BODY, moved = plan.placement.filter((m) => known(m.previous) && m.previous !== m.sub_cluster);
  subtitle(count(plan.models, 'model') + ', ' + count(plan.sub_clusters.length, 'sub-cluster'));
  page.append(verdict(plan.verdict.trim().split('\n')));
  const before = plan.sub_clusters_before, limit = (value) => (value > 0 ? [value] : []);
  const draw = (name, unit, key, most) => bars({
    name,
    title: before ? 'after' : name.toLowerCase(),
    unit,
    rows: plan.sub_clusters.map((c, j) => ({
                                  name: String(c.sub_cluster),
                                  value: c[key],
                                  marks: (before ? [before[j][key]] : []).concat(limit(most)),
                                  about: 'sub-cluster ' + c.sub_cluster + ': ' + count(c.models, 'model'),
                                })),
    marks: (before ? ['before'] : []).concat(most > 0 ? ['limit'] : []),
  });
  page.append(section('Sub-clusters', charts([
                        draw('Rate', 'r/s', 'rate_per_s', plan.max_rate_per_s),
                        draw('Static memory', 'MiB', 'static_mib', plan.max_memory_mib),
                      ])));
  page.append(section(
      'Figures',
      table(
          'After',
          [
            {name: 'sub-cluster', of: of('sub_cluster'), word: true},
            {name: 'models', of: of('models')},
            {name: 'r/s', of: of('rate_per_s'), format: fixed(2)},
            {name: 'static MiB', of: of('static_mib'), format: fixed(1)},
            {name: 'dynamic MiB', of: of('dynamic_mib'), format: fixed(1)},
          ],
          plan.sub_clusters)));
  if (moved.length > 0)
    page.append(section(
        'Moves',
        table(
            'Models that change their sub-cluster',
            [
              {name: 'model', of: of('model'), word: true},
              {name: 'from', of: of('previous')},
              {name: 'to', of: of('sub_cluster')},
            ],
            moved)));
}
