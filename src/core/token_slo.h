/* The two objectives of answers that come element by element, as a decoder's tokens do: the time to
 * the first token (TTFT), and the time per output token (TPOT), which is the mean time between two
 * of them.
 *
 * Life: the model states its objectives (core/step_model.h). On arrival a request gets the instant
 * of its first token. By cells the mechanism counts the tokens of a request as they come, so that a
 * policy knows when the next one is due. The carrier counts those that the client gets, and
 * compares them with the objectives at the end: a request is in time if it keeps both, and its
 * deadline.
 *
 * Any answer may end after any token. So TPOT is kept for sure only if each token k, from 1, comes
 * by its due: that of the first plus (k - 1) TPOT. */
#ifndef TT_CORE_TOKEN_SLO_H
#define TT_CORE_TOKEN_SLO_H

#include "base/instant.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_token_slo {
    int64_t ttft_ns, tpot_ns; /* 0: no objective */
};

/* The tokens of a request so far. */
struct tt_token_times {
    int64_t first_at, last_at; /* if count > 0 */
    int32_t count;
};

static inline bool tt_token_slo_given(const struct tt_token_slo *self) {
    return self->ttft_ns > 0 || self->tpot_ns > 0;
}

static inline void tt_token_times_add(struct tt_token_times *self, int64_t now) {
    if (self->count++ == 0)
        self->first_at = now;
    self->last_at = now;
}

/* The mean time between two tokens, rounded up; 0: there are not two. */
static inline int64_t tt_token_times_tpot(const struct tt_token_times *self) {
    int64_t gaps = self->count - 1;
    return gaps > 0 ? (self->last_at - self->first_at + gaps - 1) / gaps : 0;
}

/* When a request that arrives at `at` must have its first token; TT_NEVER: at any time. */
static inline int64_t tt_token_slo_first_by(const struct tt_token_slo *self, int64_t at) {
    return self->ttft_ns > 0 ? tt_instant_add(at, self->ttft_ns) : TT_NEVER;
}

/* True if these are the tokens of an answer that keeps both objectives. An answer without tokens
 * keeps none that is given. */
static inline bool tt_token_slo_kept(const struct tt_token_slo *self, int64_t arrived_at,
                                     const struct tt_token_times *times) {
    if (!tt_token_slo_given(self))
        return true;
    return times->count > 0 && times->first_at <= tt_token_slo_first_by(self, arrived_at) &&
           (self->tpot_ns == 0 || tt_token_times_tpot(times) <= self->tpot_ns);
}

#endif
