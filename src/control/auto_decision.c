#include "control/auto_decision.h"

#include "base/instant.h"

enum { TIE_PERCENT = 1 }; /* smaller differences do not decide between two better policies */

/* (to - from) / from in permille, rounded down; of nothing every gain is the largest. */
static int32_t gain(int64_t from, int64_t to) {
    if (to <= from)
        return 0;
    int64_t more = to - from;
    if (from == 0 || more / from >= TT_AUTO_MAX_GAIN / 1000)
        return TT_AUTO_MAX_GAIN;
    return (int32_t)(more * 1000 / from);
}

static int32_t on_time_gain(const struct tt_auto_half *now, const struct tt_auto_half *other) {
    return gain(now->on_time, other->on_time);
}

static int64_t mean_ns(const struct tt_auto_half *half) {
    return half->answered > 0 ? half->latency_ns / half->answered : 0;
}

/* How much shorter the answers are, in permille of what they take now. */
static int32_t latency_gain(const struct tt_auto_half *now, const struct tt_auto_half *other) {
    int64_t now_ns = mean_ns(now), other_ns = mean_ns(other);
    if (other->on_time < now->on_time || other->answered < now->answered || other_ns >= now_ns)
        return 0;
    return (int32_t)((now_ns - other_ns) * 1000 / now_ns);
}

static int32_t (*const gain_of[])(const struct tt_auto_half *, const struct tt_auto_half *) = {
    [TT_AUTO_ON_TIME] = on_time_gain, [TT_AUTO_LATENCY] = latency_gain};

static bool fails_when_faster(const struct tt_auto_result *now, const struct tt_auto_result *other,
                              int32_t least_permille) {
    return other->faster.on_time * 1000 < now->faster.on_time * (1000 - least_permille);
}

static enum tt_auto_reason reason_of(const struct tt_auto_result *now,
                                     const struct tt_auto_result *other, int32_t least_permille,
                                     int32_t *out_gains) {
    if (fails_when_faster(now, other, least_permille))
        return TT_AUTO_STAYS;
    for (enum tt_auto_reason reason = TT_AUTO_ON_TIME; reason <= TT_AUTO_LATENCY; reason++) {
        bool is_sure = true;
        for (int32_t h = 0; h < TT_AUTO_HALVES; h++) {
            out_gains[h] = gain_of[reason](&now->halves[h], &other->halves[h]);
            is_sure = is_sure && out_gains[h] > 0 && out_gains[h] >= least_permille;
        }
        if (is_sure)
            return reason;
    }
    return TT_AUTO_STAYS;
}

static struct tt_auto_half sum(const struct tt_auto_result *result) {
    struct tt_auto_half sum = {0};
    for (int32_t h = 0; h < TT_AUTO_HALVES; h++) {
        sum.on_time += result->halves[h].on_time;
        sum.answered += result->halves[h].answered;
        sum.latency_ns += result->halves[h].latency_ns;
    }
    return sum;
}

/* Among those that are surely better for one reason: `other` comes after `best`. */
static bool is_better(const struct tt_auto_result *best, const struct tt_auto_result *other) {
    struct tt_auto_half of_best = sum(best), of_other = sum(other);
    int64_t best_ns = mean_ns(&of_best), other_ns = mean_ns(&of_other);
    return of_other.on_time * 100 > of_best.on_time * (100 + TIE_PERCENT) ||
           (latency_gain(&of_best, &of_other) > 0 &&
            other_ns * 100 < best_ns * (100 - TIE_PERCENT));
}

struct tt_auto_verdict tt_auto_decide(const struct tt_auto_result *results, int32_t count,
                                      int32_t current, int32_t gain_permille) {
    struct tt_auto_verdict best = {.choice = current, .reason = TT_AUTO_STAYS};
    if (!results[current].is_valid)
        return best;
    for (int32_t i = 0; i < count; i++) {
        struct tt_auto_verdict other = {.choice = i};
        if (i == current || !results[i].is_valid)
            continue;
        other.reason =
            reason_of(&results[current], &results[i], gain_permille, other.gain_permille);
        if (other.reason == TT_AUTO_STAYS)
            continue;
        bool goes_first = best.reason == TT_AUTO_STAYS ||
                          (other.reason == TT_AUTO_ON_TIME && best.reason == TT_AUTO_LATENCY);
        if (goes_first ||
            (other.reason == best.reason && is_better(&results[best.choice], &results[i])))
            best = other;
    }
    return best;
}

struct tt_auto_closest tt_auto_closest_of(const struct tt_auto_result *results, int32_t count,
                                          int32_t current, int32_t gain_permille) {
    struct tt_auto_closest best = {.choice = -1};
    int32_t best_gain = -1;
    for (int32_t i = 0; i < count; i++) {
        if (i == current || !results[i].is_valid)
            continue;
        for (enum tt_auto_reason reason = TT_AUTO_ON_TIME; reason <= TT_AUTO_LATENCY; reason++) {
            int32_t gains[TT_AUTO_HALVES];
            for (int32_t h = 0; h < TT_AUTO_HALVES; h++)
                gains[h] = gain_of[reason](&results[current].halves[h], &results[i].halves[h]);
            int32_t least = gains[0] < gains[1] ? gains[0] : gains[1];
            if (least <= best_gain)
                continue;
            best_gain = least;
            best = (struct tt_auto_closest){
                .choice = i,
                .reason = least > 0 ? reason : TT_AUTO_STAYS,
                .gain_permille = {least > 0 ? gains[0] : 0, least > 0 ? gains[1] : 0},
                .fails_at_twice_the_rate =
                    fails_when_faster(&results[current], &results[i], gain_permille)};
        }
    }
    return best;
}

int32_t tt_auto_best_gain(const struct tt_auto_result *results, int32_t count, int32_t current) {
    int32_t best = 0;
    if (!results[current].is_valid)
        return 0;
    struct tt_auto_half now = sum(&results[current]);
    for (int32_t i = 0; i < count; i++) {
        struct tt_auto_half other = sum(&results[i]);
        int32_t more = results[i].is_valid ? on_time_gain(&now, &other) : 0;
        best = more > best ? more : best;
    }
    return best;
}

int64_t tt_auto_next_at(int64_t began_at, int64_t interval_ns, int64_t cpu_ns) {
    int64_t least_ns = cpu_ns > TT_NEVER / (1000 / TT_AUTO_BUDGET_PERMILLE)
                           ? TT_NEVER
                           : cpu_ns * (1000 / TT_AUTO_BUDGET_PERMILLE);
    return tt_instant_add(began_at, least_ns > interval_ns ? least_ns : interval_ns);
}
