#include "control/auto_view.h"

#include "base/instant.h"
#include "serve/domain.h"
#include "serve/recent_arrivals.h"
#include "serve/scheduler.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- between two turns ---- */

struct taking {
    struct tt_auto_view *views;
    bool failed; /* out of memory */
};

static const struct tt_served_model *auto_model(const struct tt_domain *domain, int32_t index) {
    const struct tt_served_model *model = domain->models[index];
    return model && model->choice ? model : NULL;
}

/* The believed model, packed. Cells of sequences become blocks, which a simulation can run under
 * any policy. */
static void *pack(const struct tt_served_model *model, const struct tt_step_model *believed,
                  size_t *out_bytes) {
    bool is_sequence = model->cells && model->cells->cells->kind != TT_UNFOLD_TREE &&
                       model->cells->cells->kind != TT_UNFOLD_PLUGIN;
    if (!is_sequence || believed->steps[0].kind != TT_STEP_STATIC)
        return tt_record_model_pack(believed, 0, out_bytes);
    struct tt_step *steps = malloc((size_t)believed->step_count * sizeof(*steps));
    if (!steps)
        return NULL;
    struct tt_step_model blocks = *believed;
    memcpy(steps, believed->steps, (size_t)believed->step_count * sizeof(*steps));
    tt_served_cells_as_blocks(model->cells, steps, &blocks);
    void *packed = tt_record_model_pack(&blocks, 0, out_bytes);
    free(steps);
    return packed;
}

static bool add_model(struct tt_auto_view *self, const struct tt_domain *domain,
                      const struct tt_served_model *model) {
    struct tt_auto_view_model *to = &self->models[self->model_count++];
    if (self->model_count == 1)
        self->choice = *model->choice;
    else
        tt_auto_choice_join(&self->choice, model->choice);
    to->name = strdup(model->name);
    to->stats = tt_model_stats_ref(model->stats);
    const struct tt_cells *cells = model->cells ? model->cells->cells : NULL;
    to->max_length = cells ? tt_cells_rounds(cells, cells->max_length) : 0;
    to->packed = pack(model, domain->mechanism.models[model->index], &to->packed_bytes);
    int64_t changed_at = tt_counter_get(&model->stats->auto_changed_at);
    self->changed_at = changed_at > self->changed_at ? changed_at : self->changed_at;
    return to->name && to->packed;
}

static void take_domain(void *context, int32_t index, const struct tt_domain *domain) {
    struct taking *taking = context;
    (void)index;
    int32_t count = 0;
    for (int32_t m = 0; m < domain->mechanism.model_capacity; m++)
        count += auto_model(domain, m) != NULL;
    if (count == 0 || taking->failed)
        return;
    struct tt_auto_view *view = calloc(1, sizeof(*view));
    struct tt_auto_view_model *models = calloc((size_t)count, sizeof(*models));
    if (!view || !models) {
        free(view);
        free(models);
        taking->failed = true;
        return;
    }
    view->models = models;
    view->next = taking->views;
    taking->views = view;
    for (int32_t m = 0; m < domain->mechanism.model_capacity; m++)
        if (auto_model(domain, m) && !add_model(view, domain, auto_model(domain, m)))
            taking->failed = true;
    view->current = tt_policy_candidate_of(tt_policy_find(domain->policy));
    view->current_index =
        tt_policy_candidate_find(view->choice.candidates, view->choice.candidate_count,
                                 domain->policy, domain->options, domain->option_count);
    if (view->current_index >= 0)
        view->current = view->choice.candidates[view->current_index];
}

enum tt_err tt_auto_views_take(struct tt_serving *serving, struct tt_auto_view **out_views,
                               struct tt_error *why) {
    struct taking taking = {0};
    tt_scheduler_domains(tt_serving_scheduler(serving), take_domain, &taking);
    if (taking.failed) {
        tt_auto_views_free(taking.views);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    *out_views = taking.views;
    return TT_OK;
}

static void take_interval(void *context, int32_t index, const struct tt_domain *domain) {
    int64_t *shortest_ns = context;
    (void)index;
    for (int32_t m = 0; m < domain->mechanism.model_capacity; m++)
        if (auto_model(domain, m))
            *shortest_ns =
                tt_instant_min(*shortest_ns, auto_model(domain, m)->choice->options.interval_ns);
}

int64_t tt_auto_shortest_interval(struct tt_serving *serving) {
    int64_t shortest_ns = TT_NEVER;
    tt_scheduler_domains(tt_serving_scheduler(serving), take_interval, &shortest_ns);
    return shortest_ns;
}

/* ---- outside of turns ---- */

/* By time, then by model: a model's requests keep their order, since its instants never fall and
 * `cancel_at` holds their numbers meanwhile. */
static int compare(const void *a, const void *b) {
    const struct tt_sim_arrival *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->model != y->model)
        return x->model < y->model ? -1 : 1;
    return x->cancel_at < y->cancel_at ? -1 : x->cancel_at > y->cancel_at;
}

/* False for requests to an earlier load of the model, which had another configuration. */
static bool is_possible(const struct tt_step_model *model, int32_t max_length,
                        const struct tt_recent_arrival *arrival) {
    bool fits = max_length == 0 || (arrival->length >= 1 && arrival->length <= max_length);
    return fits && arrival->rows >= 1 && arrival->rows <= model->max_batch &&
           arrival->priority >= 0 && (!model->rules || arrival->priority < model->rule_count);
}

/* Outputs of decoders are not kept. Request `i` has one from each percent of the learned lengths in
 * turn; 37 steps apart, so that neighbours differ. */
static int32_t output_length(const struct tt_step_model *model, int32_t i) {
    return model->output_quantiles ? model->output_quantiles[(int64_t)i * 37 % TT_QUANTILES] : 0;
}

/* The requests of model `m`, behind those that are there. */
static void add_arrivals(struct tt_auto_view *self, int32_t m,
                         const struct tt_recent_arrival *arrivals, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (!is_possible(self->step_models[m], self->models[m].max_length, &arrivals[i]))
            continue;
        self->arrivals[self->arrival_count++] =
            (struct tt_sim_arrival){.at = arrivals[i].at,
                                    .deadline_at = arrivals[i].deadline_at,
                                    .cancel_at = i,
                                    .model = m,
                                    .rows = arrivals[i].rows,
                                    .length = arrivals[i].length,
                                    .output_length = output_length(self->step_models[m], i),
                                    .priority = arrivals[i].priority,
                                    .exit_step = -1};
    }
}

/* The latest requests only, and their instants from 0 on. */
static void sort_arrivals(struct tt_auto_view *self) {
    qsort(self->arrivals, (size_t)self->arrival_count, sizeof(*self->arrivals), compare);
    int32_t extra = self->arrival_count - TT_RECENT_ARRIVALS;
    if (extra > 0) {
        self->arrival_count = TT_RECENT_ARRIVALS;
        memmove(self->arrivals, self->arrivals + extra,
                (size_t)self->arrival_count * sizeof(*self->arrivals));
    }
    int64_t base_at = self->arrival_count > 0 ? self->arrivals[0].at : 0;
    for (int32_t i = 0; i < self->arrival_count; i++) {
        struct tt_sim_arrival *arrival = &self->arrivals[i];
        arrival->at -= base_at;
        if (arrival->deadline_at != TT_NEVER)
            arrival->deadline_at -= base_at;
        arrival->cancel_at = TT_NEVER;
    }
}

static enum tt_err read_model(struct tt_auto_view_model *model, struct tt_error *why) {
    enum tt_err err =
        tt_record_model_read(model->packed, model->packed_bytes, &model->believed, why);
    free(model->packed);
    model->packed = NULL;
    return err;
}

void tt_auto_view_add_faster(struct tt_auto_view *self) {
    self->faster = self->arrivals + self->arrival_count;
    for (int32_t i = 0; i < self->arrival_count; i++) {
        struct tt_sim_arrival arrival = self->arrivals[i];
        int64_t earlier_ns = arrival.at - arrival.at / 2;
        arrival.at -= earlier_ns;
        if (arrival.deadline_at != TT_NEVER)
            arrival.deadline_at -= earlier_ns;
        self->faster[i] = arrival;
    }
}

enum tt_err tt_auto_view_load(struct tt_auto_view *self, int64_t from_at, struct tt_error *why) {
    size_t models = (size_t)self->model_count;
    self->step_models = calloc(models, sizeof(*self->step_models));
    /* Of all models, and then those at twice the rate. */
    self->arrivals = malloc((models + 1) * TT_RECENT_ARRIVALS * sizeof(*self->arrivals));
    struct tt_recent_arrival *copy = malloc(TT_RECENT_ARRIVALS * sizeof(*copy));
    enum tt_err err = self->step_models && self->arrivals && copy
                          ? TT_OK
                          : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t m = 0; !err && m < self->model_count; m++) {
        struct tt_auto_view_model *model = &self->models[m];
        err = read_model(model, why);
        if (err)
            break;
        self->step_models[m] = &model->believed->step_model;
        int32_t count =
            tt_recent_arrivals_copy(model->stats->recent, from_at, copy, TT_RECENT_ARRIVALS);
        add_arrivals(self, m, copy, count);
    }
    if (!err) {
        sort_arrivals(self);
        tt_auto_view_add_faster(self);
    }
    free(copy);
    return err;
}

void tt_auto_views_free(struct tt_auto_view *take_views) {
    for (struct tt_auto_view *view = take_views, *next; view; view = next) {
        next = view->next;
        for (int32_t m = 0; m < view->model_count; m++) {
            free(view->models[m].name);
            free(view->models[m].packed);
            tt_record_model_free(view->models[m].believed);
            tt_model_stats_unref(view->models[m].stats);
        }
        free(view->models);
        free(view->step_models);
        free(view->arrivals);
        free(view);
    }
}
