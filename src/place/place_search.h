/* S8: a search for a partition of small objective (place_problem.h): a greedy start, annealing over
 * single moves, and an exchange of pairs between sub-clusters.
 *
 * Without a bound on the cost, the largest models go first, each where it raises the deviations
 * least; then annealing; then exchanges of up to two models for up to two (place_exchange.h), which
 * reach deviations far below the size of any model. Where the cost is bound, the current placement
 * is the start. Once the budget is spent no model can move, so one kind of move changes which
 * models move: one goes back and another moves instead, mostly from the same sub-cluster or to the
 * same.
 *
 * The effort is counted in moves tried, not in seconds, and random numbers come from the problem's
 * seed: the same problem and effort give the same answer on every machine. Implemented in
 * place_search.c. */
#ifndef TT_PLACE_PLACE_SEARCH_H
#define TT_PLACE_PLACE_SEARCH_H

#include "place/place_problem.h"

/* About what a processor of 2020 tries within a second. */
#define TT_PLACE_MOVES_PER_SECOND INT64_C(10000000)

struct tt_place_effort {
    int64_t moves; /* tried in all, at least; a multiple of TT_PLACE_MOVES_PER_SECOND */
    /* Called with 0 .. 1 every some milliseconds; false ends the search with the best so far, which
     * then depends on when that was. May be NULL. */
    bool (*goes_on)(void *context, double share);
    void *context;
};

/* Writes the best assignment found to out_at[model_count]. It holds all limits. Errors: INVALID
 * when the limits cannot hold (tt_place_possible), UNAVAILABLE when the search found no assignment
 * that holds them, with what the best one broke; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_place_search(const struct tt_place_problem *problem,
                                          const struct tt_place_effort *effort, int32_t *out_at,
                                          struct tt_error *why);

#endif
