/* What a scheduler that knows the future could reach with the requests of a scenario: the proved
 * bound of lab/clairvoyant, and a plan where there is one model. For the requests of one run, and
 * for a rate.
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
    int64_t most;     /* no schedule has more of them in time */
    int64_t planned;  /* a plan has so many in time; -1: none was made */
    bool interrupted;
};

struct tt_possible_rate {
    int64_t impossible; /* the lowest rate that was proved impossible, in millionths; 0: none */
    int64_t open;       /* the highest rate that was not, in millionths; 0: none */
    int64_t planned;    /* the highest rate of a plan within the limit, in millionths; 0: none */
    bool interrupted;
};

/* Errors: those of tt_clairvoyant_case_init and tt_clairvoyant_bound. */
TT_MUST_CHECK enum tt_err tt_possible_run(const struct tt_scenario *scenario,
                                          const struct tt_possible_options *options,
                                          struct tt_possible_run *out_run, struct tt_error *why);
/* `limits` are those of the search for the goodput, whose errors it also has. */
TT_MUST_CHECK enum tt_err tt_possible_rate(const struct tt_scenario *scenario,
                                           const struct tt_goodput_options *limits,
                                           const struct tt_possible_options *options,
                                           struct tt_possible_rate *out_rate, struct tt_error *why);

#endif
