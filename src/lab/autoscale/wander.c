#include "lab/autoscale/wander.h"

#include "base/prng.h"
#include "lab/scenario/allocate.h"

#include <math.h>

#define DAY_S 86400.0
#define PI 3.14159265358979323846

/* The random walk returns to its mean within about this, and strays by so much (of a logarithm). */
static const double return_s = 2 * 3600;
static const double spread = 0.2;
static const double wave = 0.5; /* of the mean */
static const double shortest_jump_s = 1200, longest_jump_s = 7200;

static double uniform(struct tt_prng *prng) {
    return (double)(tt_prng_next(prng) >> 11) / 9007199254740992.0;
}

/* Nearly normal: mean 0, variance 1. */
static double normal(struct tt_prng *prng) {
    double sum = -6;
    for (int32_t i = 0; i < 12; i++)
        sum += uniform(prng);
    return sum;
}

struct walker {
    struct tt_prng prng;
    double phase, strays;
    double factor; /* of a jump; 1: none */
    double ends_s;
};

static double step(struct walker *self, const struct tt_wander_options *options, double now_s) {
    double keeps = exp(-options->step_s / return_s);
    self->strays = keeps * self->strays + spread * sqrt(1 - keeps * keeps) * normal(&self->prng);
    if (now_s >= self->ends_s)
        self->factor = 1;
    double draw = uniform(&self->prng);
    if (self->factor == 1 && draw < options->jumps_per_day * options->step_s / DAY_S) {
        self->factor = 1.5 + 1.5 * uniform(&self->prng);
        self->ends_s =
            now_s + shortest_jump_s + (longest_jump_s - shortest_jump_s) * uniform(&self->prng);
    }
    double daily = 1 + wave * sin(2 * PI * (now_s / DAY_S + self->phase));
    return daily * exp(self->strays) * self->factor;
}

double *tt_wander_new(const struct tt_wander_options *options) {
    size_t models = (size_t)options->model_count;
    double *out = tt_allocate(models * (size_t)options->step_count, sizeof(*out));
    for (size_t m = 0; m < models; m++) {
        struct walker walker = {.factor = 1};
        tt_prng_init(&walker.prng, options->seed, UINT64_C(0x77616e6465720000) + m);
        /* Most services of one region have their day at about the same time. */
        walker.phase = 0.3 * uniform(&walker.prng);
        for (int32_t i = 0; i < options->step_count; i++)
            out[(size_t)i * models + m] = step(&walker, options, i * options->step_s);
    }
    return out;
}
