/* slow */
/* plain build only: minutes of simulation, whose parts have tests of their own */
/* Overload on devices that are not exact, in virtual time: each run takes 10 % more or less
 * (log-normal) than its profile says, and one in a hundred takes three times as long. Under every
 * policy of the deferred family, and under those that drop by option:
 * - at most 2 % of the offered requests are computed and late;
 * - at 1.5 and 3 times what the devices bear, the goodput is at least 0.97 of its peak.
 * Whatever is offered ends once. */
#include "unit/seed.h"
#include "unit/sim/noisy_world.h"

/* The bounds of issue 21, in permille. */
enum { LATE_LIMIT = 20, GOODPUT_LIMIT = 970 };
enum { SECONDS = 40, LOADS = 8 };
static const int64_t loads[LOADS] = {800, 900, 1000, 1100, 1250, 1500, 2000, 3000};
static const struct tt_noise noise = {
    .spread_permille = 100, .outlier_permille = 10, .outlier_times = 3};

static const struct device_case cases[] = {
    {"small batches", 1053000, 5072000, 60 * TT_MS, 64, 4},
    {"one executor", 400000, 8000000, 60 * TT_MS, 64, 1},
};

static const struct {
    const char *name;
    struct tt_option option;
} policies[] = {
    {"deferred", {NULL, NULL}},       {"symphony", {NULL, NULL}},
    {"eager", {NULL, NULL}},          {"timeout", {NULL, NULL}},
    {"clockwork", {NULL, NULL}},      {"nexus", {NULL, NULL}},
    {"shepherd", {NULL, NULL}},       {"window", {"drop", "deadline"}},
    {"serial", {"drop", "deadline"}}, {"lazy", {"drop", "deadline"}},
};

static void overload(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    int32_t failures = 0;
    for (size_t k = 0; k < TT_COUNT(cases); k++)
        for (size_t p = 0; p < TT_COUNT(policies); p++) {
            struct figures f[LOADS];
            int64_t peak = 0;
            for (int32_t i = 0; i < LOADS; i++) {
                struct world w = {.policy = policies[p].name,
                                  .option = policies[p].option,
                                  .noise = noise,
                                  .seconds = SECONDS};
                f[i] = run(&w, &cases[k], loads[i], seed);
                peak = f[i].in_time > peak ? f[i].in_time : peak;
            }
            for (int32_t i = 0; i < LOADS; i++) {
                bool counts = loads[i] == 1500 || loads[i] == 3000;
                bool late = f[i].late * 1000 > LATE_LIMIT * f[i].offered;
                bool low = counts && f[i].in_time * 1000 < GOODPUT_LIMIT * peak;
                print_message("%-14s %-10s load %.2f: offered %6lld, in time %6lld (%.3f of the "
                              "peak), late %5lld (%.2f %%), refused %6lld, dropped %6lld%s%s\n",
                              cases[k].name, policies[p].name, (double)loads[i] / 1000,
                              (long long)f[i].offered, (long long)f[i].in_time,
                              (double)f[i].in_time / (double)peak, (long long)f[i].late,
                              100 * (double)f[i].late / (double)f[i].offered,
                              (long long)f[i].refused, (long long)f[i].dropped, late ? " LATE" : "",
                              low ? " LOW" : "");
                failures += late || low;
            }
        }
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(overload)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
