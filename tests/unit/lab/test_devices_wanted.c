/* S9: advice about devices against a search over device counts in virtual time. */
/* slow */
#include "base/instant.h"
#include "base/prng.h"
#include "lab/autoscale/fleet_world.h"
#include "scale/autoscaler.h"
#include "unit/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_MODELS = 8, MAX_BATCH = 64, CAPACITY = 160, SETS = 48, ROUNDS = 5, REQUESTS = 6000 };

struct set {
    int32_t count;
    struct tt_profile *profiles[MAX_MODELS];
    struct tt_fleet_world_model models[MAX_MODELS];
    double per_s[MAX_MODELS];
    int64_t shape_ppm, slo_ns;
    uint64_t seed;
};

static double uniform(struct tt_prng *prng, double low, double high) {
    return low + (high - low) * (double)(tt_prng_next(prng) >> 11) / 9007199254740992.0;
}
static double log_uniform(struct tt_prng *prng, double low, double high) {
    return exp(uniform(prng, log(low), log(high)));
}

static struct tt_devices_load load_of(const struct set *set, const double *per_s,
                                      struct tt_devices_model *out_models) {
    for (int32_t m = 0; m < set->count; m++)
        out_models[m] = (struct tt_devices_model){
            .curve = tt_batch_curve_of(set->profiles[m], 0, MAX_BATCH),
            .slo_s = (double)set->models[m].slo_ns / 1e9,
            .rows_per_s = per_s[m],
            .dispersion = set->shape_ppm > 0 ? 1e6 / (double)set->shape_ppm : 1};
    return (struct tt_devices_load){.models = out_models, .model_count = set->count};
}

/* A few models with l(b) = alpha b + beta, objectives of 2 to 6 l(1), that need about `devices`. */
static void set_init(struct set *set, struct tt_prng *prng, double devices) {
    *set = (struct set){.count = 1 + (int32_t)tt_prng_below(prng, MAX_MODELS),
                        .seed = tt_prng_next(prng)};
    set->shape_ppm = tt_prng_below(prng, 4) == 0 ? 300000 : 0;
    for (int32_t m = 0; m < set->count; m++) {
        double alpha = log_uniform(prng, 0.2e6, 3e6), beta = alpha * log_uniform(prng, 1, 15);
        int64_t slo_ns = (int64_t)((alpha + beta) * uniform(prng, 2, 6));
        assert_int_equal(tt_profile_new_linear((int64_t)alpha, (int64_t)beta, MAX_BATCH,
                                               &set->profiles[m], NULL),
                         TT_OK);
        set->models[m] = (struct tt_fleet_world_model){
            .name = "m", .profile = set->profiles[m], .max_batch = MAX_BATCH, .slo_ns = slo_ns};
        set->slo_ns = slo_ns > set->slo_ns ? slo_ns : set->slo_ns;
        set->per_s[m] = uniform(prng, 0.2, 1) * 1e9 / alpha;
    }
    struct tt_devices_model models[MAX_MODELS];
    for (int32_t i = 0; i < 12; i++) {
        struct tt_devices_load load = load_of(set, set->per_s, models);
        double scale = devices / tt_devices_wanted(&load, NULL).work;
        for (int32_t m = 0; m < set->count; m++)
            set->per_s[m] *= scale;
    }
}

static void set_fini(struct set *set) {
    for (int32_t m = 0; m < set->count; m++)
        tt_profile_free(set->profiles[m]);
}

static struct tt_fleet_world *world_of(const struct set *set, int32_t capacity, int32_t devices) {
    struct tt_fleet_world_options options = {.models = set->models,
                                             .model_count = set->count,
                                             .capacity = capacity,
                                             .devices = devices,
                                             .policy = "deferred",
                                             .shape_ppm = set->shape_ppm,
                                             .seed = set->seed};
    struct tt_fleet_world *world;
    struct tt_error why;
    if (tt_fleet_world_new(&options, &world, &why))
        fail_msg("%s", why.text);
    return world;
}

/* Long enough to see one bad request in a hundred. */
static int64_t span_of(const struct set *set, const double *per_s) {
    double sum = 0;
    for (int32_t m = 0; m < set->count; m++)
        sum += per_s[m];
    return (int64_t)fmax(REQUESTS / sum * 1e9, 20 * (double)set->slo_ns);
}

/* The share of bad requests on a fixed fleet. */
static double bad_on(const struct set *set, const double *per_s, int32_t devices) {
    struct tt_fleet_world *world = world_of(set, devices, devices);
    tt_fleet_world_set_rates(world, per_s);
    tt_fleet_world_run(world, 4 * set->slo_ns);
    struct tt_fleet_span span = tt_fleet_world_run(world, span_of(set, per_s));
    double bad = tt_fleet_bad_share(&span.total);
    tt_fleet_world_free(world);
    return bad;
}

/* The oracle: the fewest devices that suffice. */
static int32_t fewest(const struct set *set, const double *per_s, int32_t guess) {
    int32_t n = guess;
    while (n > 1 && bad_on(set, per_s, n - 1) <= TT_DEVICES_BAD_SHARE)
        n--;
    while (bad_on(set, per_s, n) > TT_DEVICES_BAD_SHARE)
        n++;
    return n;
}

/* ---- properties ---- */

/* What an actuator that follows the advice ends with after the load changed. */
struct course {
    int32_t settled, adjustments;
};

static struct tt_devices_load measured(const struct set *set, const struct tt_fleet_span *span,
                                       struct tt_devices_model *out_models) {
    double per_s[MAX_MODELS], span_s = (double)span->span_ns / 1e9;
    for (int32_t m = 0; m < set->count; m++)
        per_s[m] = (double)span->models[m].arrived / span_s;
    struct tt_devices_load load = load_of(set, per_s, out_models);
    load.window_s = span_s;
    return load;
}

static struct course follow(const struct set *set, const double *per_s, int32_t devices) {
    struct tt_fleet_world *world = world_of(set, CAPACITY, devices);
    struct tt_devices_feedback feedback = {0};
    struct tt_devices_model models[MAX_MODELS];
    struct tt_autoscaler scaler;
    tt_autoscaler_init(&scaler, devices, 1, CAPACITY, 0);
    tt_fleet_world_set_rates(world, per_s);
    for (int32_t round = 0; round < ROUNDS; round++) {
        tt_fleet_world_run(world, 4 * set->slo_ns); /* what the change left behind */
        struct tt_fleet_span span = tt_fleet_world_run(world, span_of(set, per_s));
        struct tt_devices_load load = measured(set, &span, models);
        double bad = tt_fleet_bad_share(&span.total);
        tt_devices_feedback_learn(&feedback, &load, scaler.target, bad, 0);
        struct tt_devices_wanted wanted = tt_devices_wanted(&load, &feedback);
        tt_fleet_world_resize(world, tt_autoscaler_step(&scaler, round, &wanted, bad), 0);
    }
    tt_fleet_world_free(world);
    return (struct course){.settled = scaler.target, .adjustments = scaler.adjustments};
}

/* Within a tenth of the fewest, or one device, since there are no parts of one. */
static bool is_near(int32_t devices, int32_t least) {
    return abs(devices - least) <= fmax(1, 0.1 * least);
}

static struct course change_load(struct tt_prng *prng, int32_t *out_least) {
    static const double steps[] = {0.3, 0.6, 1.7, 3};
    struct set set;
    struct tt_devices_model models[MAX_MODELS];
    set_init(&set, prng, log_uniform(prng, 1, 12));
    struct tt_devices_load load = load_of(&set, set.per_s, models);
    int32_t before = tt_devices_wanted(&load, NULL).count;
    double per_s[MAX_MODELS], step = steps[tt_prng_below(prng, TT_COUNT(steps))];
    for (int32_t m = 0; m < set.count; m++)
        per_s[m] = step * set.per_s[m];
    struct course course = follow(&set, per_s, before);
    *out_least = fewest(&set, per_s, course.settled);
    set_fini(&set);
    return course;
}

/* A window of REQUESTS shows more than 1 % bad now and then where the mean is less, so that some
 * courses take one adjustment more. Rates of few rows per second are less bursty at a batch's
 * scale than in the mean; their advice is too high. */
static void settles_near_the_fewest(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    int32_t near = 0, quick = 0, settled = 0, needed = 0;
    for (int32_t i = 0; i < SETS; i++) {
        int32_t least;
        struct course course = change_load(&prng, &least);
        int32_t allowed = (int32_t)ceil(1.2 * least) + 1;
        if (course.settled > allowed || course.settled < 0.9 * least - 1 || course.adjustments > 4)
            fail_msg("set %d: %d devices after %d adjustments; %d suffice", i, course.settled,
                     course.adjustments, least);
        near += is_near(course.settled, least);
        quick += course.adjustments <= 2;
        settled += course.settled;
        needed += least;
    }
    printf(
        "%d of %d within 10 %% or one device, %d after at most two adjustments; %d devices where "
        "%d suffice\n",
        near, SETS, quick, settled, needed);
    assert_true(near * 10 >= SETS * 9);
    assert_true(quick * 10 >= SETS * 9);
    assert_true(settled * 100 <= needed * 107);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(settles_near_the_fewest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
