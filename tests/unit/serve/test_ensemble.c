/* How one deadline is divided among the steps of an ensemble, and what is known of the steps. */
#include "serve/ensemble.h"

#include "base/instant.h"
#include "base/prng.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "unit/breach.h"
#include "unit/seed.h"

enum { MOST = 12, NOTHING_KNOWN = -1 };

/* A model with `inputs` inputs that takes `ns` for one row; 0: it has no profile; NOTHING_KNOWN:
 * the one that the loader gives to a model that needs none. */
static struct tt_served_model *part(int64_t ns, int32_t inputs) {
    struct tt_served_model_spec spec = {
        .name = "part", .version = "1", .platform = "", .config_json = "{}", .slo_ns = TT_NEVER};
    struct tt_served_model *model;
    struct tt_error why;
    assert_int_equal(tt_served_model_new(&spec, &model), TT_OK);
    model->signature->input_count = inputs;
    model->profile_source = ns == NOTHING_KNOWN ? "none" : "measured";
    if (ns != 0)
        assert_int_equal(tt_profile_new_linear(0, ns > 0 ? ns : 1, 1, &model->profile, &why),
                         TT_OK);
    return model;
}

/* Steps that take so long; step s reads the steps of reads[s], or the ensemble's input. The last
 * one is shown. */
static struct tt_ensemble *make(int32_t count, const int64_t *ns, const uint64_t *reads) {
    struct tt_ensemble_step_spec steps[MOST];
    struct tt_ensemble_source sources[MOST][MOST], shown = {.step = count - 1};
    struct tt_served_model *models[MOST];
    for (int32_t s = 0; s < count; s++) {
        int32_t inputs = 0;
        for (int32_t r = 0; r < s; r++)
            if (reads[s] >> r & 1)
                sources[s][inputs++] = (struct tt_ensemble_source){.step = r};
        if (inputs == 0)
            sources[s][inputs++] = (struct tt_ensemble_source){.step = -1};
        models[s] = part(ns[s], inputs);
        steps[s] = (struct tt_ensemble_step_spec){models[s], s + 1, sources[s]};
    }
    struct tt_ensemble *ensemble;
    const struct tt_ensemble_spec spec = {count, steps, 1, &shown};
    assert_int_equal(tt_ensemble_new(&spec, &ensemble), TT_OK);
    for (int32_t s = 0; s < count; s++)
        tt_served_model_unref(models[s]); /* the ensemble holds it */
    tt_ensemble_check(ensemble);
    return ensemble;
}

/* A chain of 1, 2 and 5 ms with a deadline of 16 ms. Of the slack of 8 ms the first two count as
 * 4 ms, half of the whole, and to the first one the second counts as 2. What one saves goes to the
 * others. */
static void test_chain(void **state) {
    (void)state;
    const int64_t ns[] = {TT_MS, 2 * TT_MS, 5 * TT_MS};
    const uint64_t reads[] = {0, 1, 2};
    struct tt_ensemble *e = make(3, ns, reads);
    assert_int_equal(e->alone_ns, 8 * TT_MS);
    assert_int_equal(e->quota, 1);
    assert_int_equal(e->steps[0].share_ppm, 363636);
    assert_int_equal(tt_ensemble_patience(&e->steps[0], 0, 16 * TT_MS), 3909088);
    assert_int_equal(e->steps[1].share_ppm, 444444);
    assert_int_equal(tt_ensemble_patience(&e->steps[1], 2 * TT_MS, 16 * TT_MS), 5111108);
    /* The first step took 0.5 ms only. */
    assert_int_equal(tt_ensemble_patience(&e->steps[1], TT_MS / 2, 16 * TT_MS), 5777774);
    assert_int_equal(tt_ensemble_patience(&e->steps[0], 0, 4 * TT_MS), TT_MS / 2); /* no slack */
    assert_int_equal(tt_ensemble_patience(&e->steps[2], 6 * TT_MS, 16 * TT_MS), 10 * TT_MS);
    assert_int_equal(tt_ensemble_patience(&e->steps[2], 20 * TT_MS, 16 * TT_MS),
                     1); /* it is late */
    assert_int_equal(tt_ensemble_patience(&e->steps[0], 5, TT_NEVER), 0);
    tt_ensemble_free(e);
}

/* 0 and 1 side by side before 2: the longest path counts, for 1 the shorter one from it. */
static void test_diamond(void **state) {
    (void)state;
    const int64_t ns[] = {3 * TT_MS, TT_MS, TT_MS};
    const uint64_t reads[] = {0, 0, 3};
    struct tt_ensemble *e = make(3, ns, reads);
    assert_int_equal(e->alone_ns, 4 * TT_MS);
    assert_int_equal(e->quota, 2);
    assert_int_equal(e->steps[0].share_ppm, 750000);
    assert_int_equal(e->steps[1].share_ppm, 666666);
    assert_int_equal(e->steps[2].share_ppm, 1000000);
    assert_int_equal(e->steps[0].readers, 4);
    assert_int_equal(e->steps[2].sources, 3);
    assert_false(e->steps[0].is_shown);
    assert_true(e->steps[2].is_shown);
    tt_ensemble_free(e);
}

/* A short step may wait for an executor as long as a long one, and leaves that one its time,
 * however little there is. */
static void test_short_steps(void **state) {
    (void)state;
    const uint64_t reads[] = {0, 1};
    struct tt_ensemble *e = make(2, (const int64_t[]){TT_MS / 20, 10 * TT_MS}, reads);
    assert_true(tt_ensemble_patience(&e->steps[0], 0, 60 * TT_MS) > 16 * TT_MS);
    assert_true(tt_ensemble_patience(&e->steps[0], 0, 60 * TT_MS) < 20 * TT_MS);
    assert_true(tt_ensemble_patience(&e->steps[0], 0, 11 * TT_MS) <= TT_MS);
    tt_ensemble_free(e);
    e = make(2, (const int64_t[]){10 * TT_MS, TT_MS / 20}, reads);
    assert_true(tt_ensemble_patience(&e->steps[0], 0, 60 * TT_MS) > 45 * TT_MS);
    assert_true(tt_ensemble_patience(&e->steps[0], 0, 60 * TT_MS) < 55 * TT_MS);
    assert_true(tt_ensemble_patience(&e->steps[0], 0, 10 * TT_MS + TT_MS / 20) == 10 * TT_MS);
    tt_ensemble_free(e);
}

static void test_parts_without_profile(void **state) {
    (void)state;
    const uint64_t reads[] = {0, 1};
    struct tt_ensemble *e = make(2, (const int64_t[]){0, 0}, reads);
    assert_int_equal(e->steps[0].share_ppm, 500000);
    tt_ensemble_free(e);
    e = make(2, (const int64_t[]){TT_MS, 0}, reads); /* its slack is as that of the longest */
    assert_int_equal(e->steps[0].share_ppm, 500000);
    assert_int_equal(tt_ensemble_patience(&e->steps[0], 0, TT_MS), TT_MS);
    tt_ensemble_free(e);
    e = make(2, (const int64_t[]){NOTHING_KNOWN, TT_MS}, reads);
    assert_int_equal(e->steps[0].share_ppm, 500000);
    tt_ensemble_free(e);
    /* It may take as long as the longest one, whatever other ones are short. */
    e = make(3, (const int64_t[]){NOTHING_KNOWN, 8 * TT_MS, TT_MS / 10},
             (const uint64_t[]){0, 1, 2});
    assert_true(tt_ensemble_patience(&e->steps[0], 0, 120 * TT_MS) > 40 * TT_MS);
    tt_ensemble_free(e);
    e = make(2, (const int64_t[]){INT64_MAX / 4, INT64_MAX / 4}, reads); /* no overflow */
    assert_int_equal(e->steps[0].share_ppm, 500000);
    tt_ensemble_free(e);
}

/* The largest number of steps, no two of which are on one path: by trying all sets. */
static int32_t widest(int32_t count, const uint64_t *reads) {
    uint64_t before[MOST] = {0};
    for (int32_t s = 0; s < count; s++)
        for (int32_t r = 0; r < s; r++)
            if (reads[s] >> r & 1)
                before[s] |= before[r] | UINT64_C(1) << r;
    int32_t best = 0;
    for (uint64_t set = 1; set < UINT64_C(1) << count; set++) {
        bool is_free = true;
        for (int32_t s = 0; s < count && is_free; s++)
            is_free = !(set >> s & 1) || !(before[s] & set);
        int32_t size = __builtin_popcountll(set);
        best = is_free && size > best ? size : best;
    }
    return best;
}

/* In random graphs: if every step takes all of its time, each has time to run, and the whole is in
 * time; and no more steps run at once than the quota says. */
static void test_random_graphs(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(77), 0);
    for (int i = 0; i < 300; i++) {
        int32_t count = 1 + (int32_t)tt_prng_below(&prng, MOST - 1);
        int64_t ns[MOST], ends_at[MOST], deadline_at = 0;
        uint64_t reads[MOST];
        for (int32_t s = 0; s < count; s++) {
            ns[s] = 1 + (int64_t)tt_prng_below(&prng, 10 * TT_MS);
            reads[s] = 0;
            for (int32_t r = 0; r < s; r++)
                reads[s] |= (uint64_t)(tt_prng_below(&prng, 3) == 0) << r;
        }
        struct tt_ensemble *e = make(count, ns, reads);
        assert_true(e->quota >= widest(count, reads));
        assert_true(e->quota <= count);
        deadline_at = e->alone_ns * (int64_t)(1 + tt_prng_below(&prng, 3));
        for (int32_t s = 0; s < count; s++) {
            int64_t now = 0;
            for (int32_t r = 0; r < s; r++)
                if (reads[s] >> r & 1)
                    now = tt_instant_max(now, ends_at[r]);
            int64_t patience_ns = tt_ensemble_patience(&e->steps[s], now, deadline_at);
            ends_at[s] = now + patience_ns;
            assert_true(ends_at[s] <= deadline_at);
            assert_true(patience_ns >= ns[s]);
        }
        tt_ensemble_free(e);
    }
}

static void in_a_circle(void) {
    const uint64_t reads[] = {0, 1};
    struct tt_ensemble *e = make(2, (const int64_t[]){1, 1}, reads);
    e->steps[0].sources |= 2;
    tt_ensemble_check(e);
}

static void unread(void) {
    const uint64_t reads[] = {0, 1};
    struct tt_ensemble *e = make(2, (const int64_t[]){1, 1}, reads);
    e->steps[0].readers = 0;
    tt_ensemble_check(e);
}

static void test_check(void **state) {
    (void)state;
    static const struct breach breaches[] = {BREACH(in_a_circle, "sources & ~before"),
                                             BREACH(unread, "readers")};
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),         cmocka_unit_test(test_diamond),
        cmocka_unit_test(test_short_steps),   cmocka_unit_test(test_parts_without_profile),
        cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
