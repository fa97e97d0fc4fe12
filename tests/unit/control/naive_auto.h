/* A naive model of policy auto's decisions, written from control/auto_decision.h: it compares
 * fractions. For tests only. */
#ifndef TT_TEST_NAIVE_AUTO_H
#define TT_TEST_NAIVE_AUTO_H

#include "control/auto_decision.h"

/* At least `permille` more, or more than that. */
static inline bool naive_more(int64_t from, int64_t to, int32_t permille, bool strictly) {
    int64_t least = from * (1000 + permille), found = to * 1000;
    return to > from && (strictly ? found > least : found >= least);
}

static inline bool naive_less(int64_t from, int64_t to, int32_t permille, bool strictly) {
    int64_t most = from * (1000 - permille), found = to * 1000;
    return to < from && (strictly ? found < most : found <= most);
}

/* Means are whole nanoseconds. */
static inline int64_t naive_mean(const struct tt_auto_half *half) {
    return half->answered ? half->latency_ns / half->answered : 0;
}

static inline bool naive_is_better(const struct tt_auto_half *now, const struct tt_auto_half *other,
                                   enum tt_auto_reason reason, int32_t permille, bool strictly) {
    if (reason == TT_AUTO_ON_TIME)
        return naive_more(now->on_time, other->on_time, permille, strictly);
    return other->on_time >= now->on_time && other->answered >= now->answered &&
           naive_less(naive_mean(now), naive_mean(other), permille, strictly);
}

static inline bool naive_is_surely_better(const struct tt_auto_result *now,
                                          const struct tt_auto_result *other,
                                          enum tt_auto_reason reason, int32_t permille) {
    if (!other->is_valid || 1000 * other->faster.on_time < (1000 - permille) * now->faster.on_time)
        return false;
    for (int32_t h = 0; h < TT_AUTO_HALVES; h++)
        if (!naive_is_better(&now->halves[h], &other->halves[h], reason, permille, false))
            return false;
    return true;
}

static inline struct tt_auto_half naive_both(const struct tt_auto_result *result) {
    const struct tt_auto_half *a = &result->halves[0], *b = &result->halves[1];
    return (struct tt_auto_half){.on_time = a->on_time + b->on_time,
                                 .answered = a->answered + b->answered,
                                 .latency_ns = a->latency_ns + b->latency_ns};
}

/* Without the gains. */
static inline struct tt_auto_verdict naive_verdict(const struct tt_auto_result *results,
                                                   int32_t count, int32_t current,
                                                   int32_t permille) {
    struct tt_auto_verdict verdict = {.choice = current, .reason = TT_AUTO_STAYS};
    for (enum tt_auto_reason reason = TT_AUTO_ON_TIME;
         results[current].is_valid && verdict.reason == TT_AUTO_STAYS && reason <= TT_AUTO_LATENCY;
         reason++)
        for (int32_t i = 0; i < count; i++) {
            if (!naive_is_surely_better(&results[current], &results[i], reason, permille))
                continue;
            struct tt_auto_half best = naive_both(&results[verdict.choice]);
            struct tt_auto_half other = naive_both(&results[i]);
            if (verdict.reason == TT_AUTO_STAYS ||
                naive_is_better(&best, &other, TT_AUTO_ON_TIME, 10, true) ||
                naive_is_better(&best, &other, TT_AUTO_LATENCY, 10, true))
                verdict = (struct tt_auto_verdict){.choice = i, .reason = reason};
        }
    return verdict;
}

#endif
