#include "policy/policy_candidates.h"

#include <stdio.h>
#include <string.h>

void tt_policy_needs_join(struct tt_policy_needs *self, const struct tt_policy_needs *other) {
    if (self->max_batch == 0) {
        *self = *other;
        return;
    }
    self->has_graphs |= other->has_graphs;
    self->has_cells |= other->has_cells;
    self->has_trees |= other->has_trees;
    self->has_stages |= other->has_stages;
    self->mixes_shapes |= other->mixes_shapes;
    self->has_lengths |= other->has_lengths;
    self->has_ring |= other->has_ring;
    if (other->max_batch > self->max_batch)
        self->max_batch = other->max_batch;
    if (other->worker_limit < self->worker_limit)
        self->worker_limit = other->worker_limit;
}

/* ---- kinds ---- */

static bool mixes_shapes(const struct tt_policy_needs *needs) {
    return needs->mixes_shapes && needs->has_graphs; /* sequences of any lengths share batches */
}

static bool can_run(const struct tt_policy_kind *kind, const struct tt_policy_needs *needs) {
    const struct tt_policy_traits *traits = &kind->traits;
    if (tt_policy_runs_cells(traits))
        return needs->has_cells && !needs->has_graphs && !needs->has_ring;
    if (needs->has_trees || (needs->has_ring && !traits->waits_for_inputs))
        return false;
    if (traits->granularity == TT_GRANULARITY_STAGE && needs->has_cells)
        return false;
    return !mixes_shapes(needs) || traits->runs_alone || kind->serving.same_shape.key;
}

/* A model of one step gives a policy of steps no boundary to act at. */
static bool has_boundaries(const struct tt_policy_kind *kind, const struct tt_policy_needs *needs) {
    bool needs_steps = kind->traits.granularity == TT_GRANULARITY_STAGE ||
                       kind->traits.granularity == TT_GRANULARITY_NODE;
    return !needs_steps || needs->has_stages ||
           (needs->has_cells && kind->traits.granularity == TT_GRANULARITY_NODE);
}

/* The number that orders policies from the simplest on. */
static int32_t complexity(const struct tt_policy_kind *kind) {
    const struct tt_policy_traits *traits = &kind->traits;
    int32_t out = traits->runs_alone ? 0 : traits->runs_as_they_came ? 1000 : 2000;
    out += 4000 * (int32_t)traits->granularity + 1000 * traits->needs_profiles;
    out += 1000 * (traits->waits_for_inputs + traits->stage_per_executor);
    return out + kind->option_count;
}

/* ---- candidates ---- */

struct list {
    const struct tt_policy_needs *needs;
    struct tt_policy_candidate *items;
    int32_t count;
};

static void add_option(struct tt_policy_candidate *self, struct tt_option option) {
    if (!option.key || tt_options_value(option.key, self->options, self->option_count))
        return;
    tt_assert(self->option_count < TT_POLICY_CANDIDATE_OPTIONS);
    self->options[self->option_count++] = option;
}

static void add_defaults(struct tt_policy_candidate *self) {
    const struct tt_policy_serving *serving = &self->policy->serving;
    for (int32_t i = 0; i < serving->default_count; i++)
        add_option(self, serving->defaults[i]);
}

struct tt_policy_candidate tt_policy_candidate_of(const struct tt_policy_kind *policy) {
    struct tt_policy_candidate out = {.policy = policy};
    add_defaults(&out);
    return out;
}

/* The candidate with these options, and the server's where they leave it free. */
static void add(struct list *list, const struct tt_policy_kind *kind,
                const struct tt_option *options, int32_t option_count) {
    if (list->count == TT_POLICY_MAX_CANDIDATES)
        return;
    int32_t at = list->count++;
    for (; at > 0 && complexity(list->items[at - 1].policy) > complexity(kind); at--)
        list->items[at] = list->items[at - 1];
    struct tt_policy_candidate *out = &list->items[at];
    *out = (struct tt_policy_candidate){.policy = kind};
    for (int32_t i = 0; i < option_count; i++)
        add_option(out, options[i]);
    add_defaults(out);
    if (mixes_shapes(list->needs))
        add_option(out, kind->serving.same_shape);
}

/* Workers for batches of all sizes up to the largest power of two that the models take. */
static const char *worker_sizes(const struct tt_policy_needs *needs) {
    static const char *const sizes[] = {"1,1",       "1,1,2",        "1,1,2,4",
                                        "1,1,2,4,8", "1,1,2,4,8,16", "1,1,2,4,8,16,32"};
    int32_t largest = 0, limit = needs->worker_limit - 2;
    while (largest < (int32_t)TT_COUNT(sizes) - 1 && 2 << largest <= needs->max_batch)
        largest++;
    largest = largest < limit ? largest : limit;
    return largest < 0 ? NULL : sizes[largest];
}

static void add_workers(struct list *list, const struct tt_policy_kind *kind) {
    const struct tt_policy_workers *workers = &kind->serving.workers;
    const char *sizes = worker_sizes(list->needs);
    if (!sizes)
        return;
    struct tt_option options[] = {{workers->sizes, sizes}, workers->measured};
    add(list, kind, options, 1);
    if (workers->measured.key)
        add(list, kind, options, 2);
}

static bool is_of_use(const struct tt_policy_variant *variant, const struct tt_policy_kind *kind,
                      const struct tt_policy_needs *needs) {
    switch (variant->use) {
    case TT_VARIANT_LENGTHS: return needs->has_lengths;
    case TT_VARIANT_STAGES: return needs->has_stages;
    case TT_VARIANT_ALWAYS: break;
    }
    return has_boundaries(kind, needs);
}

int32_t tt_policy_candidates(const struct tt_policy_needs *needs, struct tt_policy_candidate *out) {
    struct list list = {.needs = needs, .items = out};
    for (int32_t p = 0; p < tt_policy_count(); p++) {
        const struct tt_policy_kind *kind = tt_policy_at(p);
        const struct tt_policy_serving *serving = &kind->serving;
        if (!can_run(kind, needs))
            continue;
        if (serving->workers.sizes)
            add_workers(&list, kind);
        else if (!kind->traits.waits_for_inputs && has_boundaries(kind, needs))
            add(&list, kind, NULL, 0);
        for (int32_t v = 0; v < serving->variant_count; v++)
            if (is_of_use(&serving->variants[v], kind, needs))
                add(&list, kind, serving->variants[v].options, serving->variants[v].option_count);
    }
    return list.count;
}

/* ---- one candidate ---- */

int32_t tt_policy_candidate_workers(const struct tt_policy_candidate *self) {
    const char *key = self->policy->serving.workers.sizes;
    int32_t sizes[1];
    return key ? tt_options_sizes(key, self->options, self->option_count, sizes, 1) : 0;
}

bool tt_policy_candidate_matches(const struct tt_policy_candidate *self, const char *policy,
                                 const struct tt_option *options, int32_t option_count) {
    if (strcmp(self->policy->name, policy) != 0)
        return false;
    for (int32_t i = 0; i < self->option_count; i++)
        if (!tt_options_have(self->options[i], options, option_count))
            return false;
    return true;
}

int32_t tt_policy_candidate_find(const struct tt_policy_candidate *candidates, int32_t count,
                                 const char *policy, const struct tt_option *options,
                                 int32_t option_count) {
    int32_t found = -1;
    for (int32_t i = 0; i < count; i++)
        if (tt_policy_candidate_matches(&candidates[i], policy, options, option_count) &&
            (found < 0 || candidates[i].option_count > candidates[found].option_count))
            found = i;
    return found;
}

const char *tt_policy_candidate_text(const struct tt_policy_candidate *self, char *out,
                                     size_t capacity) {
    const struct tt_policy_serving *serving = &self->policy->serving;
    size_t used = (size_t)snprintf(out, capacity, "%s", self->policy->name);
    const char *before = " (";
    for (int32_t i = 0; i < self->option_count && used < capacity; i++) {
        const struct tt_option *option = &self->options[i];
        if (tt_options_have(*option, serving->defaults, serving->default_count))
            continue;
        used += (size_t)snprintf(out + used, capacity - used, "%s%s %s", before, option->key,
                                 option->value);
        before = ", ";
    }
    if (*before == ',' && used < capacity)
        snprintf(out + used, capacity - used, ")");
    return out;
}
