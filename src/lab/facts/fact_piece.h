/* A run or search that facts need, with a seed or several: how it is made from the text of a fact,
 * and the value of its results.
 *
 * Life: zeroed, with key, changes, kind and fact; _build opens and checks the experiment; the owner
 * (fact_runs.h) runs it and sets the results; _ran; _value; _fini. Facts that need equal runs share
 * one. Implemented in fact_piece.c. */
#ifndef TT_LAB_FACTS_FACT_PIECE_H
#define TT_LAB_FACTS_FACT_PIECE_H

#include "lab/facts/fact_compute.h"
#include "lab/facts/fact_sweep.h"
#include "lab/facts/facts.h"

enum { TT_FACT_MEDIAN = -1 };

struct tt_fact_piece {
    char *key;     /* equal for equal runs */
    char *changes; /* to its experiment, "NAME=VALUE NAME=VALUE"; for people */
    enum tt_fact_kind kind;
    const Tutti__Fact *fact; /* the first fact that needs it; TT_FACT_GOLDEN: the only one */
    uint64_t identity;       /* of the experiment, as it runs */
    bool follows_batches;
    int64_t reply_ns; /* of served runs */
    struct tt_scenario scenario;
    struct tt_goodput_options goodput;
    struct tt_fact_sweep *sweep; /* TT_FACT_SWEEP: replaces scenario and seeds */
    char *placement;             /* TT_FACT_PLACEMENT: the problem's file; replaces the scenario */
    int32_t own_seeds;           /* as the experiment says, also where a quick run has one */
    int32_t seeds;               /* of all facts */
    int32_t median_seeds;        /* of facts that say nothing of seeds */
    json_t *results[TT_FACT_SEEDS_MAX]; /* NULL: not known */
};

/* Opens the experiment or the placement problem at `path`. `said`: the run in the file, for
 * messages; `run`: the same with the changes of one alternative. Errors: those of experiments. */
TT_MUST_CHECK enum tt_err tt_fact_piece_build(const struct tt_facts *facts,
                                              const Tutti__FactRun *said, const Tutti__FactRun *run,
                                              const char *path, struct tt_fact_piece *piece,
                                              struct tt_error *why);
/* The quick form of what was built. */
void tt_fact_piece_shorten(struct tt_fact_piece *piece);
/* No more of its runs will be made: frees what they need. */
void tt_fact_piece_ran(struct tt_fact_piece *piece);
void tt_fact_piece_fini(struct tt_fact_piece *piece);
/* The value with that seed; TT_FACT_MEDIAN: the median over the seeds (the lower one of two). NAN
 * if one is not known. Of a median, appends the extremes and the run's own note to `note`, unless
 * NULL. */
double tt_fact_piece_value(const struct tt_fact_piece *piece, const Tutti__FactRun *run,
                           int32_t seed, struct tt_text *note);

#endif
