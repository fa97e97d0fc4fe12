/* A neighbour that disturbs the machine, in virtual time: half of the time, in bursts of 50 to 500
 * ms, everything takes twice as long. A batch that is held back has no room for a slow run. So with
 * learning the deferral shrinks while the spread is wide.
 *
 * In the geometric mean policy `deferred` serves more in time than an eager server, and than eager
 * policies that learn as well. In each cell it serves at least 0.95 of the eager server's requests,
 * except on one executor: there a burst is a few batches long, and beliefs follow it too late. */
#include "unit/seed.h"
#include "unit/sim/noisy_world.h"

enum { SECONDS = 15, SPANS = 200, RATES = 6 };
static const int64_t loads[RATES] = {200, 400, 500, 600, 800, 1200};
static const struct tt_noise noise = {.spread_permille = 30};

/* SLOs of about 3, 6 and 12 times l(1). */
static const struct device_case cases[] = {
    {"3 l(1), 1 executor", 400000, 8000000, 25 * TT_MS, 64, 1},
    {"6 l(1), 1 executor", 400000, 8000000, 50 * TT_MS, 64, 1},
    {"12 l(1), 1 executor", 400000, 8000000, 100 * TT_MS, 64, 1},
    {"3 l(1), 2 executors", 400000, 8000000, 25 * TT_MS, 64, 2},
    {"6 l(1), 2 executors", 400000, 8000000, 50 * TT_MS, 64, 2},
    {"12 l(1), 2 executors", 400000, 8000000, 100 * TT_MS, 64, 2},
    {"6 l(1), 4 executors", 1053000, 5072000, 37 * TT_MS, 64, 4},
};

static struct tt_perturbation bursts[SPANS];

/* Bursts and pauses of equal mean. */
static void draw_bursts(uint64_t seed) {
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 77);
    int64_t at = 0;
    for (int32_t i = 0; i < SPANS; i++) {
        at += 50 * TT_MS + (int64_t)tt_prng_below(&prng, (uint64_t)(450 * TT_MS));
        int64_t until_at = at + 50 * TT_MS + (int64_t)tt_prng_below(&prng, (uint64_t)(450 * TT_MS));
        bursts[i] =
            (struct tt_perturbation){.from_at = at, .until_at = until_at, .speed_permille = 500};
        at = until_at;
    }
}

static struct figures run_policy(const char *policy, bool is_plain, const struct device_case *c,
                                 int64_t load, uint64_t seed) {
    struct world w = {.policy = policy,
                      .noise = noise,
                      .is_plain = is_plain,
                      .spans = bursts,
                      .span_count = SPANS,
                      .seconds = SECONDS};
    if (strcmp(policy, "window") == 0)
        w.option = (struct tt_option){"drop", "deadline"};
    return run(&w, c, load, seed);
}

/* What is served in time, beside an eager server (window 0 that drops what is hopeless and believes
 * its profile) and beside eager policies that learn as well. */
static void neighbour(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    int32_t worse = 0, cells = 0;
    double beside_server = 0, beside_eager = 0;
    draw_bursts(seed);
    for (size_t k = 0; k < TT_COUNT(cases); k++)
        for (int32_t i = 0; i < RATES; i++, cells++) {
            struct figures ours = run_policy("deferred", false, &cases[k], loads[i], seed);
            struct figures server = run_policy("window", true, &cases[k], loads[i], seed);
            struct figures window = run_policy("window", false, &cases[k], loads[i], seed);
            struct figures eager = run_policy("eager", false, &cases[k], loads[i], seed);
            int64_t best = eager.in_time > window.in_time ? eager.in_time : window.in_time;
            bool is_worse = ours.in_time * 100 < 95 * server.in_time;
            bool counts = cases[k].executors > 1;
            print_message("%-20s load %.2f: offered %6lld, in time: deferred %6lld, eager server "
                          "%6lld, learning window %6lld, eager %6lld; ratio %.3f, %.3f%s\n",
                          cases[k].name, (double)loads[i] / 1000, (long long)ours.offered,
                          (long long)ours.in_time, (long long)server.in_time,
                          (long long)window.in_time, (long long)eager.in_time,
                          (double)ours.in_time / (double)server.in_time,
                          (double)ours.in_time / (double)best, is_worse ? " WORSE" : "");
            worse += is_worse && counts;
            beside_server += log((double)ours.in_time / (double)server.in_time);
            beside_eager += log((double)ours.in_time / (double)best);
        }
    beside_server = exp(beside_server / cells);
    beside_eager = exp(beside_eager / cells);
    print_message("geometric means: %.3f beside the eager server, %.3f beside eager policies that "
                  "learn\n",
                  beside_server, beside_eager);
    assert_int_equal(worse, 0);
    assert_true(beside_server >= 1);
    assert_true(beside_eager >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(neighbour)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
