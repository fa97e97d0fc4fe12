/* What a scheduler that knows the future could reach with the requests of a scenario: the proved
 * bounds of lab/clairvoyant, and a plan where there is one model. For the requests of one run, and
 * for a rate.
 *
 * A run: where no clairvoyant case describes it, because batches part, or run side by side, the
 * bound by work (work_bound.h) may. Only that one bounds the mean latency.
 *
 * The rate: requests are drawn at rates that the search for the goodput chooses (goodput.h), and
 * each rate is impossible, or open, or has a plan within the limit. No policy is asked, so the
 * result is that of the workload. `impossible` is proved for the requests of that rate and seed.
 * That higher rates are impossible, too, is not proved, just as the search takes for granted that
 * rates below a good one are good. */
#ifndef TT_LAB_EXPERIMENT_POSSIBLE_H
#define TT_LAB_EXPERIMENT_POSSIBLE_H

#include "lab/experiment/goodput.h"

struct tt_possible_options {
    const volatile sig_atomic_t *stop; /* may be NULL */
    /* Called after each round of a bound; may be NULL. */
    void (*progress)(void *context, int32_t finished, int32_t all);
    void *progress_context;
};

struct tt_possible_run {
    int64_t requests; /* that count */
    int64_t most;     /* no schedule has more of them in time; -1: they have no deadlines */
    int64_t planned;  /* a plan has so many in time; -1: none was made */
    /* No schedule that computes all of them has a lower mean latency; -1: not known. */
    int64_t least_mean_ns;
    bool interrupted;
};

struct tt_possible_rate {
    int64_t impossible; /* the lowest rate that was proved impossible, in millionths; 0: none */
    int64_t open;       /* the highest rate that was not, in millionths; 0: none */
    int64_t planned;    /* the highest rate of a plan within the limit, in millionths; 0: none */
    bool interrupted;
};

enum tt_possible_of { TT_POSSIBLE_OF_RUN, TT_POSSIBLE_OF_RATE };

/* Whether there is a bound for such runs, or such rates. INVALID: the message says why not. */
TT_MUST_CHECK enum tt_err tt_possible_covers(const struct tt_scenario *scenario,
                                             enum tt_possible_of of, struct tt_error *why);
/* Equal for requests whose bounds are equal. The errors of _covers, also of single requests;
 * NO_MEMORY; those of the arrivals. */
TT_MUST_CHECK enum tt_err tt_possible_identity(const struct tt_scenario *scenario,
                                               enum tt_possible_of of, uint64_t *out_identity,
                                               struct tt_error *why);
/* Errors: those of _identity and tt_clairvoyant_bound. */
TT_MUST_CHECK enum tt_err tt_possible_run(const struct tt_scenario *scenario,
                                          const struct tt_possible_options *options,
                                          struct tt_possible_run *out_run, struct tt_error *why);
/* `limits` are those of the search for the goodput, whose errors it also has. */
TT_MUST_CHECK enum tt_err tt_possible_rate(const struct tt_scenario *scenario,
                                           const struct tt_goodput_options *limits,
                                           const struct tt_possible_options *options,
                                           struct tt_possible_rate *out_rate, struct tt_error *why);

#endif
