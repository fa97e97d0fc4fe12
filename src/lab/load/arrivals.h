/* Draws the load of an experiment: one stream of requests per model, drawn one request at a time
 * and merged in order of time (ties: smaller model number first).
 *
 * The gaps of a stream are variates with mean one (exponential, Gamma, or constant), scaled to time
 * by the stream's rate. A variate that spans several segments is spent at the rate of each, so
 * bursts keep their shape relative to the rate. A stream's random numbers depend only on the seed
 * and the name of its model: adding, removing or reordering models does not change the other
 * streams. Positions are kept to 2^-20 ns, so rates are exact over any length. Integers only; O(1)
 * memory per model. */
#ifndef TT_LAB_LOAD_ARRIVALS_H
#define TT_LAB_LOAD_ARRIVALS_H

#include "lab/load/draw.h"
#include "lab/load/kept_gaps.h"
#include "lab/scenario/lengths.h"
#include "lab/scenario/rate.h"
#include "sim/simulation.h"

struct tt_arrivals_model {
    const char *name;
    int64_t weight; /* its share of the rate, relative to the sum; 0: no requests */
    int64_t slo_ns; /* TT_NEVER: no deadline */
    int32_t rows, length, output_length;
    const struct tt_lengths
        *lengths; /* instead of the fixed lengths, with random numbers of their own; borrowed */
};

struct tt_arrivals_options {
    const struct tt_arrivals_model *models;
    int32_t model_count;
    enum tt_process process;
    int64_t shape_ppm;                      /* for TT_PROCESS_GAMMA */
    int64_t rate;                           /* if there are no segments and no interval */
    int64_t interval_ns;                    /* > 0: the mean gap, instead of the rate */
    const struct tt_rate_segment *segments; /* borrowed; the rate of the last one stays */
    int32_t segment_count;
    int64_t step_rate, step_every,
        step_maximum;    /* step_every > 0: the rate grows with the number of requests */
    int64_t duration_ns; /* requests arrive before this */
    int64_t request_limit;
    uint64_t seed;
    struct tt_kept_gaps *kept_gaps; /* of earlier runs of this load; NULL: none; borrowed */
};

struct tt_arrivals;

struct tt_arrivals *tt_arrivals_new(const struct tt_arrivals_options *options);
void tt_arrivals_free(struct tt_arrivals *take_arrivals);
/* `next` of a tt_sim_source. */
bool tt_arrivals_next(void *self, struct tt_sim_arrival *out_arrival);

/* Integer weights (about 2^40 for the first) proportional to i^-s, i = 1 .. count; s in millionths.
 */
void tt_arrivals_zipf(int64_t exponent_ppm, int32_t count, int64_t *out_weights);

#endif
