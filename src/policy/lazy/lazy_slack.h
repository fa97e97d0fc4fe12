/* L2, L5: the slack check of the lazy policy, for one executor's stack. It answers whether
 * newcomers may join without breaking a deadline.
 *
 * It has three forms:
 * - remaining: every request on the stack and every newcomer must be in time if all end at the same
 *   instant: now + the sum of the times that each still needs alone, over all models. (Equation 2
 * of the paper with elapsed time and remaining work.) While a batch runs, its part of the sum
 * shrinks evenly over the duration that its profile predicts. At a boundary the sum is exact.
 * - published: equations 1 and 2 as published. For each request: T_wait, the time from its arrival
 *   until its first task started, plus the sum of the times of whole graphs, whatever part of them
 *   is done. Of a request that has not started, T_wait is the time until now: also on the stack,
 *   below an entry that runs first. A request that returns to the queue has not started.
 * - curves: no sum, but the profile's times of the actual batches. The newcomers run alone until
 *   they catch up, and merged from there on; entries further down run after them. (The paper's
 *   Oracle, if the profile is exact.)
 *
 * The option `votes` says which requests may refuse newcomers. A request that could not be in time
 * even alone and without waiting has no vote: its deadline is missed anyway, so it must not delay
 * other requests. A request that became hopeless by waiting keeps its vote with `feasible`, and
 * loses it with `timely`. Without that vote one late request lets in the next, which makes the next
 * one late. With `all` every request with a deadline has a vote.
 *
 * Results are cached in the stack's entries, and updated on demand. Nothing else changes; nothing
 * allocates. */
#ifndef TT_POLICY_LAZY_LAZY_SLACK_H
#define TT_POLICY_LAZY_LAZY_SLACK_H

#include "base/instant.h"
#include "policy/lazy/lazy_stack.h"

enum tt_lazy_slack_form { TT_LAZY_REMAINING, TT_LAZY_PUBLISHED, TT_LAZY_CURVES };
/* Requests that may refuse newcomers: those that could be in time on arrival; of these, those that
 * still can; all. */
enum tt_lazy_votes { TT_LAZY_VOTES_FEASIBLE, TT_LAZY_VOTES_TIMELY, TT_LAZY_VOTES_ALL };

/* The top entry's task, as far as it is known between boundaries. */
struct tt_lazy_run {
    bool running;
    int64_t started_at;
    int32_t to; /* it ends before this step */
    /* -1: not computed yet */
    int64_t predicted_ns; /* predicted duration, > 0 */
    int64_t consumed_ns;  /* time that its members need alone until its end */
};

struct tt_lazy_slack {
    const struct tt_lazy_times *times; /* [models] */
    enum tt_lazy_slack_form form;
    enum tt_lazy_votes votes;
};

/* Requests of one model at one step that would be admitted together. */
struct tt_lazy_group {
    int32_t model;
    int32_t count, rows, length;
    int32_t max_rows; /* of a batch that it may share */
    struct tt_lazy_place place;
    int64_t alone_ns; /* sum over the requests */
    struct tt_lazy_veto veto;
};

/* The time in ns that the request still needs alone, from its present step. */
static inline int64_t tt_lazy_slack_alone(const struct tt_lazy_slack *self,
                                          const struct tt_request *request) {
    struct tt_lazy_place place = {.step = request->step, .round = request->round};
    return tt_lazy_times_rest(&self->times[request->model], request->rows, request->length, place);
}
/* The key of a request that is admitted at `issued_at` (struct tt_lazy_member). `alone_ns`: the
 * time that it still needs alone. */
static inline int64_t tt_lazy_slack_key(const struct tt_lazy_slack *self,
                                        const struct tt_request *request, int64_t alone_ns,
                                        int64_t issued_at) {
    if (request->deadline_at == TT_NEVER)
        return TT_NEVER;
    if (self->votes == TT_LAZY_VOTES_FEASIBLE) {
        int64_t whole_ns = alone_ns;
        if (request->step > 0 || request->round > 0)
            whole_ns = tt_lazy_times_rest(&self->times[request->model], request->rows,
                                          request->length, (struct tt_lazy_place){0});
        if (whole_ns > request->deadline_at - request->arrived_at)
            return TT_NEVER;
    }
    return self->form == TT_LAZY_PUBLISHED ? request->deadline_at - issued_at
                                           : request->deadline_at;
}
/* The member for a request that is admitted now. */
static inline struct tt_lazy_member tt_lazy_slack_member(const struct tt_lazy_slack *self,
                                                         struct tt_request *request, int64_t now) {
    const struct tt_lazy_times *times = &self->times[request->model];
    const struct tt_lazy_sum *sums = tt_lazy_times_at(times, request->rows, request->length, 0);
    int64_t alone_ns = tt_lazy_sum_rest(times, &sums[request->step], request->step, request->length,
                                        request->round);
    return (struct tt_lazy_member){
        .request = request,
        .full_ns = alone_ns,
        /* published: settled when it starts */
        .key = self->form == TT_LAZY_PUBLISHED ? TT_NEVER
                                               : tt_lazy_slack_key(self, request, alone_ns, now),
        .sums = sums,
    };
}
/* The vote of a request that would be admitted and needs `alone_ns` alone. */
static inline struct tt_lazy_veto tt_lazy_slack_vote(const struct tt_lazy_slack *self,
                                                     const struct tt_request *request,
                                                     int64_t alone_ns, int64_t now) {
    struct tt_lazy_veto veto = {tt_lazy_slack_key(self, request, alone_ns, now), TT_NEVER};
    if (self->votes != TT_LAZY_VOTES_TIMELY || veto.key == TT_NEVER)
        return veto;
    int64_t latest_at =
        request->deadline_at - alone_ns; /* the latest instant to continue and be in time */
    return now > latest_at ? (struct tt_lazy_veto){TT_NEVER, TT_NEVER}
                           : (struct tt_lazy_veto){veto.key, latest_at + 1};
}
/* A group of one request. */
static inline struct tt_lazy_group tt_lazy_slack_group(const struct tt_lazy_slack *self,
                                                       const struct tt_request *request,
                                                       int32_t max_rows, int64_t now) {
    int64_t alone_ns = tt_lazy_slack_alone(self, request);
    return (struct tt_lazy_group){
        .model = request->model,
        .count = 1,
        .rows = request->rows,
        .length = request->length,
        .max_rows = max_rows,
        .place = {.step = request->step, .round = request->round},
        .alone_ns = alone_ns,
        .veto = tt_lazy_slack_vote(self, request, alone_ns, now),
    };
}
/* Adds a request to the group. */
static inline void tt_lazy_slack_grow(const struct tt_lazy_slack *self, struct tt_lazy_group *group,
                                      const struct tt_request *request, int64_t now) {
    int64_t alone_ns = tt_lazy_slack_alone(self, request);
    group->count++;
    group->rows += request->rows;
    group->length = request->length > group->length ? request->length : group->length;
    if (request->round < group->place.round)
        group->place.round = request->round;
    group->alone_ns += alone_ns;
    struct tt_lazy_veto veto = tt_lazy_slack_vote(self, request, alone_ns, now);
    if (veto.key < group->veto.key)
        group->veto = veto;
}
/* The group was admitted as the top entry: stores the times that it needs. */
static inline void tt_lazy_slack_timed(const struct tt_lazy_slack *self,
                                       struct tt_lazy_stack *stack,
                                       const struct tt_lazy_group *group) {
    tt_lazy_stack_top(stack)->unissued = self->form == TT_LAZY_PUBLISHED;
    tt_lazy_stack_top(stack)->alone_ns = group->alone_ns;
    tt_lazy_stack_top(stack)->timed = true;
}
/* The top entry starts to run: from now on its members are not waiting. */
void tt_lazy_slack_started(const struct tt_lazy_slack *self, struct tt_lazy_stack *stack,
                           const struct tt_lazy_run *run);
/* True if the group may be admitted now. The stack is not empty. */
bool tt_lazy_slack_allows(const struct tt_lazy_slack *self, struct tt_lazy_stack *stack,
                          struct tt_lazy_run *run, const struct tt_lazy_group *group, int64_t now);
/* After _allows returned false at `now`: the first instant at which it may return true without a
 * further event. TT_NEVER: not before the task ends. */
int64_t tt_lazy_slack_retry_at(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                               struct tt_lazy_run *run, const struct tt_lazy_group *group,
                               int64_t now);

#endif
