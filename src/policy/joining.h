/* Decides whether a request should join a batch that is being made, past requests of other lengths
 * that arrived between them.
 *
 * Two futures are compared:
 * - joined: the batch takes longer, and every request in it or passed by the newcomer waits for
 *   that;
 * - apart: the newcomer runs when its turn comes, and the requests behind it end later by the work
 *   that the device does twice.
 * The smaller sum of the squared latencies, from arrival to end, wins. Squares give long waits more
 * weight than short ones. With plain sums the gain of a newcomer would outweigh what the oldest
 * requests lose, and those are the 99th percentile. All other requests are assumed to run alone, in
 * order; no further arrivals are assumed.
 *
 * Life: _begin when a batch is made; _expect for each waiting request, in order; then, in the same
 * order, _join or _pass for each. The caller may ask _pays about a request before it joins. It
 * knows no queue. Pure; integers only; O(1) per call. */
#ifndef TT_POLICY_JOINING_H
#define TT_POLICY_JOINING_H

#include "core/request.h"
#include "core/step_model.h"

/* Sums over requests that would run alone, one after the other. */
struct tt_joining_line {
    int64_t rows, takes_ns;
    __int128 ends_ns; /* sum over the rows: time waited so far plus time until the end */
};

struct tt_joining {
    const struct tt_step_model *model;
    int64_t now;
    struct tt_joining_line all;    /* all requests that were expected */
    struct tt_joining_line before; /* of these: the requests that have joined or were passed */
    struct tt_joining_line passed;
    int32_t held, held_length; /* rows that have joined; their longest input */
    __int128 held_waited_ns;   /* sum over these rows */
};

void tt_joining_begin(struct tt_joining *self, const struct tt_step_model *model, int64_t now);
void tt_joining_expect(struct tt_joining *self, const struct tt_request *request);
void tt_joining_join(struct tt_joining *self, const struct tt_request *request);
void tt_joining_pass(struct tt_joining *self, const struct tt_request *request);
/* True if the next request should join. A request has joined before, and held + its rows <= the
 * model's max_batch. With equal sums it joins, because the device has less work. */
bool tt_joining_pays(const struct tt_joining *self, const struct tt_request *request);

#endif
