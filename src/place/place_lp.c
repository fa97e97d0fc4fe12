#include "place/place_lp.h"

#include <inttypes.h>
#include <stdio.h>

enum { TERMS_PER_LINE = 8 };

struct program {
    const struct tt_place_problem *problem;
    struct tt_text *out;
    double mean_rate, mean_memory; /* 1 where all amounts are 0 */
    bool has_rate, has_memory;
    int32_t terms; /* of the present row */
};

static void term(struct program *self, double factor, int32_t model, int32_t cluster) {
    if (factor <= 0 && factor >= 0)
        return;
    if (self->terms++ % TERMS_PER_LINE == 0)
        tt_text_puts(self->out, "\n ");
    tt_text_printf(self->out, " %+.12g x_%" PRId32 "_%" PRId32, factor, model, cluster);
}

static void row(struct program *self, const char *name, int32_t index) {
    tt_text_printf(self->out, " %s_%" PRId32 ":", name, index);
    self->terms = 0;
}

static double rate_of(const struct program *self, int32_t model) {
    return (double)self->problem->models[model].rate / self->mean_rate;
}

static double memory_of(const struct program *self, int32_t model) {
    return (double)self->problem->models[model].static_bytes / self->mean_memory;
}

/* The sum of a sub-cluster, then `rest`: a relation with what the sum is compared to. */
static void sum(struct program *self, const char *name, int32_t cluster,
                double (*amount)(const struct program *, int32_t), const char *rest) {
    row(self, name, cluster);
    for (int32_t i = 0; i < self->problem->model_count; i++)
        term(self, amount(self, i), i, cluster);
    tt_text_puts(self->out, rest);
}

static void put_cluster(struct program *self, int32_t cluster) {
    const struct tt_place_problem *problem = self->problem;
    char rest[80];
    if (self->has_rate) {
        sum(self, "rate_high", cluster, rate_of, " - dr <= 1\n");
        sum(self, "rate_low", cluster, rate_of, " + dr >= 1\n");
    }
    if (self->has_memory) {
        sum(self, "memory_high", cluster, memory_of, " - ds <= 1\n");
        sum(self, "memory_low", cluster, memory_of, " + ds >= 1\n");
    }
    if (problem->max_rate > 0 && self->has_rate) {
        snprintf(rest, sizeof(rest), " <= %.12g\n", (double)problem->max_rate / self->mean_rate);
        sum(self, "max_rate", cluster, rate_of, rest);
    }
    int64_t max_memory = tt_place_max_memory(problem, cluster);
    if (max_memory == 0)
        return;
    snprintf(rest, sizeof(rest), " + m_%" PRId32 " <= %.12g\n", cluster,
             (double)max_memory / self->mean_memory);
    sum(self, "max_memory", cluster, memory_of, rest);
    for (int32_t i = 0; i < problem->model_count; i++) {
        tt_text_printf(self->out, " dynamic_%" PRId32 "_%" PRId32 ":", i, cluster);
        self->terms = 1;
        term(self, -(double)problem->models[i].dynamic_bytes / self->mean_memory, i, cluster);
        tt_text_printf(self->out, " + m_%" PRId32 " >= 0\n", cluster);
    }
}

/* Eq. 10: what is placed elsewhere than now; a constant part of it stands on the right. */
static void put_cost(struct program *self) {
    const struct tt_place_problem *problem = self->problem;
    double limit = (double)problem->max_cost / TT_PLACE_MICRO;
    row(self, "max_cost", 0);
    tt_text_puts(self->out, " 0 dr");
    for (int32_t i = 0; i < problem->model_count; i++) {
        const struct tt_place_model *model = &problem->models[i];
        double cost = (double)model->cost / TT_PLACE_MICRO;
        limit -= model->now == TT_PLACE_NOWHERE ? cost : 2 * cost;
        if (model->now != TT_PLACE_NOWHERE)
            term(self, -2 * cost, i, model->now);
    }
    tt_text_printf(self->out, " <= %.12g\n", limit);
}

void tt_place_lp_put(const struct tt_place_problem *problem, struct tt_text *out_text) {
    struct program self = {.problem = problem, .out = out_text};
    for (int32_t i = 0; i < problem->model_count; i++) {
        self.mean_rate += (double)problem->models[i].rate / problem->cluster_count;
        self.mean_memory += (double)problem->models[i].static_bytes / problem->cluster_count;
    }
    self.has_rate = self.mean_rate > 0;
    self.has_memory = self.mean_memory > 0;
    self.mean_rate = self.has_rate ? self.mean_rate : 1;
    self.mean_memory = self.has_memory ? self.mean_memory : 1;
    tt_text_printf(out_text, "Minimize\n objective: dr + %.12g ds\nSubject To\n", problem->weight);
    for (int32_t i = 0; i < problem->model_count; i++) {
        row(&self, "once", i);
        for (int32_t j = 0; j < problem->cluster_count; j++)
            term(&self, 1, i, j);
        tt_text_puts(out_text, " = 1\n");
    }
    for (int32_t j = 0; j < problem->cluster_count; j++)
        put_cluster(&self, j);
    if (problem->max_cost >= 0)
        put_cost(&self);
    tt_text_puts(out_text, "Binary");
    for (int32_t i = 0; i < problem->model_count; i++)
        for (int32_t j = 0; j < problem->cluster_count; j++)
            tt_text_printf(out_text, "%s x_%" PRId32 "_%" PRId32, j % TERMS_PER_LINE ? "" : "\n ",
                           i, j);
    tt_text_puts(out_text, "\nEnd\n");
}
