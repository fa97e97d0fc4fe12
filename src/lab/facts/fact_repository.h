/* A scenario as a model repository for `tutti serve`: its models, emulated, with their profiles,
 * policy and objectives.
 *
 * If the model has copies it runs on streams of one emulated device that its executors share. Where
 * the scenario has input slots, each request is copied alone when it comes; else batches are
 * copied as a whole. Tensors are TT_FACT_REPOSITORY_SHRINKS times smaller than the model's, over a
 * link that is as much slower: copies take as long, and the client sends less. Without copies a
 * request carries one number. It starts no server (fact_served.h does). Implemented in
 * fact_repository.c. */
#ifndef TT_LAB_FACTS_FACT_REPOSITORY_H
#define TT_LAB_FACTS_FACT_REPOSITORY_H

#include "lab/scenario/scenario.h"

enum { TT_FACT_REPOSITORY_SHRINKS = 64 };

/* `reply_ns`: how much of each objective is kept for the way to the server and back; the server's
 * objective is what is left. INVALID: the scenario has what a server of emulated models has not, or
 * nothing is left of an objective. */
TT_MUST_CHECK enum tt_err tt_fact_repository_check(const struct tt_scenario *scenario,
                                                   int64_t reply_ns, struct tt_error *why);
/* Writes the models into an empty folder. Errors: IO, INVALID. */
TT_MUST_CHECK enum tt_err tt_fact_repository_write(const struct tt_scenario *scenario,
                                                   int64_t reply_ns, const char *folder,
                                                   struct tt_error *why);

#endif
