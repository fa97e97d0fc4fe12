/* Does it pay that a request joins a batch that is being made, past those of other lengths who came
 * between?
 *
 * Joined, the batch takes longer, and all that it holds and passes wait for that; apart, the
 * newcomer runs when its turn comes, and with it all behind it end later by what the device has to
 * do twice. The two futures are compared by the sum of the squares of all latencies, from arrival
 * to end: who has waited long weighs more than who has just come. (By the plain sum a newcomer's
 * gain, who did not expect any, outweighs what the oldest lose, and it is they who are the 99th
 * percentile.) Everybody else is reckoned to run alone, in order; nobody else to come.
 *
 * Life: begun when a batch is made; told of everybody who waits, in order (`expect`); then of each,
 * in the same order, that he joins or is passed, and asked before about those who might join. It
 * knows no queue. Pure; integers only; O(1) per call. */
#ifndef TT_POLICY_JOINING_H
#define TT_POLICY_JOINING_H

#include "core/request.h"
#include "core/step_model.h"

/* Requests that would run alone, one after the other. */
struct tt_joining_line {
    int64_t rows, takes_ns;
    __int128 ends_ns; /* sum over the rows: when each ends after the line begins, and has waited */
};

struct tt_joining {
    const struct tt_step_model *model;
    int64_t now;
    struct tt_joining_line all;    /* who was expected */
    struct tt_joining_line before; /* of those, who has joined or was passed */
    struct tt_joining_line passed;
    int32_t held, held_length; /* rows that joined, the longest of them */
    __int128 held_waited_ns;   /* sum over these rows */
};

void tt_joining_begin(struct tt_joining *self, const struct tt_step_model *model, int64_t now);
void tt_joining_expect(struct tt_joining *self, const struct tt_request *request);
void tt_joining_join(struct tt_joining *self, const struct tt_request *request);
void tt_joining_pass(struct tt_joining *self, const struct tt_request *request);
/* Of the next one, where somebody has joined before; held + its rows <= the model's max_batch.
 * Equal sums: it does, since the device has less to do. */
bool tt_joining_pays(const struct tt_joining *self, const struct tt_request *request);

#endif
