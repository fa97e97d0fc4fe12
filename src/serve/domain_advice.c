#include "serve/domain_advice.h"

#include "serve/domain.h"
#include "serve/served_model_state.h"

#include <stdio.h>
#include <stdlib.h>

/* Feedback is learned at most so often, from the same seconds as the rates. */
#define LEARNING_NS (TT_RATE_WINDOW_S * TT_S)

struct demand {
    const struct tt_domain *domain; /* compared only: it may be gone after the copy */
    struct tt_domain_advice advice;
    struct tt_devices_load load;
    struct tt_devices_feedback feedback;
    double bad;
    int64_t learned_at;
    int32_t learned_executors;
    struct tt_devices_model *models; /* owned */
    struct demand *next;
};

struct copying {
    int64_t now;
    struct demand *first;
};

/* Its statistics are shared with an earlier model of the domain: the same name, loaded again. */
static bool is_counted(const struct tt_domain *domain, int32_t index) {
    for (int32_t i = 0; i < index; i++)
        if (domain->models[i] && domain->models[i]->stats == domain->models[index]->stats)
            return true;
    return false;
}

static void copy_models(struct demand *demand, const struct tt_domain *domain, int64_t now) {
    double growth = 0, all = 0;
    for (int32_t i = 0; i < domain->mechanism.model_capacity; i++) {
        const struct tt_served_model *model = domain->models[i];
        const struct tt_step_model *believed = domain->mechanism.models[i];
        if (!model || !believed || is_counted(domain, i))
            continue;
        struct tt_rate_sum sum = tt_rate_window_sum(&model->stats->offered, now);
        double slo_s = believed->slo_ns == TT_NEVER ? 0 : (double)believed->slo_ns / 1e9;
        demand->models[demand->load.model_count++] = (struct tt_devices_model){
            .curve = tt_batch_curve_of(believed->whole, 0, believed->max_batch),
            .slo_s = slo_s,
            .rows_per_s = sum.rows_per_s,
            .dispersion = sum.dispersion};
        growth += sum.growth_per_s2;
        all += sum.rows_per_s;
        if (sum.window_s > demand->load.window_s)
            demand->load.window_s = sum.window_s;
    }
    demand->load.growth_per_s = all > 0 ? growth / all : 0;
}

/* No turn runs meanwhile, so this only copies. */
static void copy_domain(void *context, int32_t index, const struct tt_domain *domain) {
    struct copying *copying = context;
    struct demand *demand = calloc(1, sizeof(*demand));
    size_t capacity = (size_t)domain->mechanism.model_capacity;
    struct tt_devices_model *models = calloc(capacity, sizeof(*models));
    if (!demand || !models) {
        free(demand);
        free(models);
        return;
    }
    struct tt_load_sum load =
        tt_load_window_last(&domain->meter.load, copying->now, TT_RATE_WINDOW_S);
    *demand = (struct demand){.domain = domain,
                              .advice = {.index = index, .executor_count = domain->executor_count},
                              .feedback = domain->meter.feedback,
                              .bad = load.ended > 0 ? (double)load.bad / (double)load.ended : 0,
                              .learned_at = domain->meter.learned_at,
                              .learned_executors = domain->meter.learned_executors,
                              .models = models,
                              .load.models = models,
                              .next = copying->first};
    snprintf(demand->advice.policy, sizeof(demand->advice.policy), "%s", domain->policy);
    copy_models(demand, domain, copying->now);
    copying->first = demand;
}

/* Learns from the last span, if the same executors served all of it. */
static void learn(struct demand *demand, int64_t now) {
    if (demand->load.window_s < TT_RATE_WINDOW_S || now < demand->learned_at + LEARNING_NS)
        return;
    if (demand->learned_executors == demand->advice.executor_count)
        tt_devices_feedback_learn(&demand->feedback, &demand->load, demand->advice.executor_count,
                                  demand->bad, (double)(now - demand->learned_at) / 1e9);
    demand->learned_executors = demand->advice.executor_count;
    demand->learned_at = now;
}

/* Keeps what the demands have learned. */
static void keep(struct tt_scheduler *scheduler, const struct demand *first) {
    tt_scheduler_hold(scheduler);
    for (struct tt_domain *d = tt_scheduler_first_domain(scheduler); d; d = d->next)
        for (const struct demand *demand = first; demand; demand = demand->next)
            if (demand->domain == d) {
                d->meter.feedback = demand->feedback;
                d->meter.learned_at = demand->learned_at;
                d->meter.learned_executors = demand->learned_executors;
            }
    tt_scheduler_resume(scheduler);
}

static struct demand *reversed(struct demand *first) {
    struct demand *out = NULL;
    while (first) {
        struct demand *next = first->next;
        first->next = out;
        out = first;
        first = next;
    }
    return out;
}

void tt_domain_advices(struct tt_scheduler *scheduler, int64_t now, tt_domain_advice_fn *each,
                       void *context) {
    struct copying copying = {.now = now};
    tt_scheduler_domains(scheduler, copy_domain, &copying);
    struct demand *first = reversed(copying.first);
    for (struct demand *demand = first; demand; demand = demand->next) {
        learn(demand, now);
        demand->advice.wanted = tt_devices_wanted(&demand->load, &demand->feedback);
        each(context, &demand->advice);
    }
    keep(scheduler, first);
    while (first) {
        struct demand *next = first->next;
        free(first->models);
        free(first);
        first = next;
    }
}
