/* A policy with its options, as text for the fast policy and as numbers for the naive one; the
 * comparison of both on one case; and a description of the case for when they differ. For tests
 * only. */
#ifndef TT_TEST_NAIVE_VARIANT_H
#define TT_TEST_NAIVE_VARIANT_H

#include "unit/policy/naive_baselines.h"
#include "unit/policy/naive_deferred.h"
#include "unit/policy/naive_nexus.h"

union variant_memory {
    struct naive_serial serial;
    struct naive_window window;
    struct naive_clockwork clockwork;
    struct naive_shepherd shepherd;
    struct naive_nexus nexus;
    struct naive_deferred deferred;
};

/* Must not move after drive_open, which keeps pointers to it. */
struct variant {
    const char *policy;
    struct tt_option options[TT_MAX_OPTIONS];
    char values[TT_MAX_OPTIONS][32];
    int32_t option_count;
    void (*decide)(struct world *self, int64_t t);
    union variant_memory initial, memory;
};

static inline void variant_put(struct variant *self, const char *key, const char *value) {
    tt_assert(self->option_count < TT_MAX_OPTIONS);
    self->options[self->option_count].key = key;
    snprintf(self->values[self->option_count++], sizeof(self->values[0]), "%s", value);
}
static inline void variant_put_switch(struct variant *self, const char *key, bool on) {
    variant_put(self, key, on ? "on" : "off");
}
static inline void variant_put_number(struct variant *self, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    variant_put(self, key, text);
}
static inline void variant_put_ns(struct variant *self, const char *key, int64_t value_ns) {
    char text[32];
    snprintf(text, sizeof(text), "%lldns", (long long)value_ns);
    variant_put(self, key, text);
}
static inline void variant_put_permille(struct variant *self, const char *key, int64_t permille) {
    char text[32];
    snprintf(text, sizeof(text), "%lld.%03lld", (long long)permille / 1000,
             (long long)permille % 1000);
    variant_put(self, key, text);
}

/* ---- the policies ---- */

static inline struct variant variant_serial(bool drop) {
    struct variant self = {.policy = "serial", .decide = naive_serial_decide};
    self.initial.serial = (struct naive_serial){.drop = drop};
    variant_put(&self, "drop", drop ? "deadline" : "none");
    return self;
}

static inline struct variant variant_window(const struct naive_window *window) {
    struct variant self = {.policy = "window", .decide = naive_window_decide};
    self.initial.window = *window;
    self.initial.window.last = -1;
    variant_put(&self, "drop", window->drop ? "deadline" : "none");
    variant_put_switch(&self, "static", window->is_static);
    variant_put_switch(&self, "same_length", window->same_length);
    variant_put(&self, "order", window->round_robin ? "round_robin" : "oldest");
    if (window->delay_ns >= 0)
        variant_put_ns(&self, "max_delay", window->delay_ns);
    if (window->max_batch > 0)
        variant_put_number(&self, "max_batch", window->max_batch);
    return self;
}

static inline struct variant variant_clockwork(bool batch_of_one) {
    struct variant self = {.policy = "clockwork", .decide = naive_clockwork_decide};
    self.initial.clockwork = (struct naive_clockwork){.batch_of_one = batch_of_one};
    variant_put(&self, "reading", batch_of_one ? "batch_of_one" : "letter");
    return self;
}

static inline struct variant variant_shepherd(bool largest, int64_t threshold_permille,
                                              int64_t abort_cost_ns) {
    struct variant self = {.policy = "shepherd", .decide = naive_shepherd_decide};
    self.initial.shepherd = (struct naive_shepherd){.largest = largest,
                                                    .threshold_permille = threshold_permille,
                                                    .abort_cost_ns = abort_cost_ns};
    for (int e = 0; e < WORLD_EXECUTORS; e++)
        self.initial.shepherd.claims[e].model = NO_MODEL;
    variant_put_permille(&self, "threshold", threshold_permille);
    variant_put(&self, "candidate", largest ? "largest" : "prefix");
    variant_put_ns(&self, "abort_cost", abort_cost_ns);
    return self;
}

static inline struct variant variant_nexus(int64_t epoch_ns, int frontends) {
    struct variant self = {.policy = "nexus", .decide = naive_nexus_decide};
    self.initial.nexus = (struct naive_nexus){
        .epoch_ns = epoch_ns, .epoch_at = TT_NEVER, .counted_until = -1, .frontends = frontends};
    variant_put_ns(&self, "epoch", epoch_ns);
    variant_put_number(&self, "frontends", frontends);
    return self;
}

/* `eager`, `symphony`, `timeout`: the options of these policies are those that their names stand
 * for. */
static inline struct variant variant_published(const char *policy, bool reform, int64_t delay_ns,
                                               int64_t delay_percent) {
    struct variant self = {.policy = policy, .decide = naive_deferred_decide};
    struct tt_deferred_options *o = &self.initial.deferred.options;
    o->defer = TT_DEFER_FULL;
    if (strcmp(policy, "eager") == 0)
        o->defer = TT_DEFER_NONE;
    o->reform_at_latest = reform;
    variant_put_switch(&self, "reform_at_latest", reform);
    if (strcmp(policy, "timeout") == 0) {
        o->defer = TT_DEFER_TIMEOUT;
        o->delay_ns = delay_ns;
        variant_put_ns(&self, "delay", delay_ns);
        o->delay_permille = 10 * delay_percent;
        char text[16];
        snprintf(text, sizeof(text), "%d%%", (int)delay_percent);
        variant_put(&self, "share", text);
    }
    self.initial.deferred.last_dispatch_at = -1;
    return self;
}

/* The option for the minimum size: off or fixed (to the target). */
static inline struct variant variant_deferred(const struct tt_deferred_options *options) {
    static const char *const rules[] = {"none", "partial", "full"};
    struct variant self = {.policy = options->by_load ? "adaptive" : "deferred",
                           .decide = naive_deferred_decide};
    const struct tt_deferred_options *o = options;
    self.initial.deferred = (struct naive_deferred){.options = *o, .last_dispatch_at = -1};
    variant_put(&self, "defer", rules[o->defer]);
    variant_put(&self, "floor", o->floor == TT_FLOOR_FIXED ? "fixed" : "off");
    if (o->floor == TT_FLOOR_FIXED)
        variant_put_number(&self, "target", o->target);
    variant_put(&self, "key", o->key == TT_KEY_LATEST ? "latest" : "deadline");
    variant_put_switch(&self, "reform_at_latest", o->reform_at_latest);
    variant_put_switch(&self, "credit", o->credit);
    variant_put_switch(&self, "lookahead", o->lookahead);
    self.initial.deferred.options.lookahead &= o->floor != TT_FLOOR_OFF;
    variant_put_ns(&self, "credit_step", o->credit_step_ns);
    variant_put_switch(&self, "split", o->split);
    variant_put_permille(&self, "gap_factor", o->gap_permille);
    variant_put_permille(&self, "slack_limit", o->slack_permille);
    variant_put_permille(&self, "beta_limit", o->beta_permille);
    return self;
}

/* ---- one case ---- */

/* Sets the drive's policy. */
static inline void variant_setup(struct variant *self, struct drive_setup *setup) {
    for (int i = 0; i < self->option_count; i++)
        self->options[i].value = self->values[i];
    setup->policy = self->policy;
    setup->options = self->options;
    setup->option_count = self->option_count;
}

static inline void variant_print(const struct variant *self, const struct drive *fast,
                                 const int64_t *cancels) {
    const struct drive_setup *setup = &fast->setup;
    fprintf(stderr, "%s", self->policy);
    for (int i = 0; i < self->option_count; i++)
        fprintf(stderr, " %s=%s", self->options[i].key, self->values[i]);
    fprintf(stderr, "; %d executors", setup->executors);
    if (setup->d_ctrl_ns || setup->d_data_ns)
        fprintf(stderr, ", messages %lld + %lld b", (long long)setup->d_ctrl_ns,
                (long long)setup->d_data_ns);
    fprintf(stderr, ", an abort takes %lld\n", (long long)setup->abort_ns);
    for (int m = 0; m < setup->model_count; m++) {
        const struct drive_model *model = &setup->models[m];
        fprintf(stderr, "  model %d: l(b) = %lld b + %lld, b <= %d, window %lld, preferred", m,
                (long long)model->alpha_ns, (long long)model->beta_ns, model->max_batch,
                (long long)fast->models[m].window_ns);
        for (int p = 0; p < fast->models[m].preferred_count; p++)
            fprintf(stderr, " %d", fast->models[m].preferred[p]);
        fprintf(stderr, ", SLO %lld\n", (long long)model->slo_ns);
    }
    for (int c = 0; c < setup->change_count; c++)
        fprintf(stderr, "  at %lld %s %d changes\n", (long long)setup->changes[c].at,
                setup->changes[c].is_model ? "model" : "executor", setup->changes[c].id);
    for (int r = 0; r < fast->arrival_count; r++) {
        const struct drive_arrival *a = &fast->arrivals[r];
        fprintf(stderr, "  request %d: model %d at %lld", r, a->model, (long long)a->at);
        if (a->deadline_at != TT_NEVER)
            fprintf(stderr, " due %lld", (long long)a->deadline_at);
        if (a->rows != 1)
            fprintf(stderr, ", %d rows", a->rows);
        if (a->length || a->priority)
            fprintf(stderr, ", length %d, priority %d", a->length, a->priority);
        if (cancels[r] != TT_NEVER)
            fprintf(stderr, ", cancelled at %lld", (long long)cancels[r]);
        fprintf(stderr, "\n");
    }
}

/* Runs both policies on the input of `fast`, whose times are multiples of the quantum. False if
 * they differ: stderr shows the case and the difference. */
static inline bool variant_agrees(struct variant *self, struct drive *fast, int64_t quantum_ns,
                                  int64_t until) {
    struct world slow;
    int64_t cancels[WORLD_REQUESTS]; /* the drive stores there which requests it has cancelled */
    self->memory = self->initial;
    world_open(&slow, fast, self->decide, &self->memory);
    slow.quantum_ns = quantum_ns;
    for (int r = 0; r < fast->arrival_count; r++)
        cancels[r] = fast->arrivals[r].cancel_at;
    world_walk(&slow, until);
    drive_run(fast, until);
    if (world_agrees(&slow, fast))
        return true;
    variant_print(self, fast, cancels);
    return false;
}

#endif
